// Thoughts in the form that clients hand back unread. Nothing in them is secret: whoever gets them may read them.

const MARK = "anneal-thoughts:";

export const encodeThoughts = (text: string): string => Buffer.from(MARK + text, "utf8").toString("base64");

/** null: these are not ours. */
export function decodeThoughts(encoded: string): string | null {
  const text = Buffer.from(encoded, "base64").toString("utf8");
  return text.startsWith(MARK) ? text.slice(MARK.length) : null;
}
