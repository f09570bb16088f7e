// Looking for one of some tags in a text that comes in pieces.

/** What a piece of text made certain. */
export interface BeforeTag {
  text: string;
  /** Once a tag has come: which one, the white space before it, and what follows it. */
  found: { tag: string; space: string; after: string } | null;
}

/** Holds back what may be a tag, and white space that may stand before it; constant work per character. */
export class TagSearch {
  private space = "";
  private tail = "";

  constructor(private readonly tags: readonly string[]) {}

  push(piece: string): BeforeTag {
    const all = this.tail + piece;
    const first = firstTag(all, this.tags);
    const certain = all.slice(0, first?.at ?? all.length - heldLength(all, this.tags));
    const body = certain.trimEnd();
    const text = body === "" ? "" : this.space + body;
    this.space = (body === "" ? this.space : "") + certain.slice(body.length);
    this.tail = first === null ? all.slice(certain.length) : "";
    if (first === null) return { text, found: null };
    const { space } = this;
    this.space = "";
    return { text, found: { tag: first.tag, space, after: all.slice(first.at + first.tag.length) } };
  }

  /** What was held back. */
  flush(): string {
    const rest = this.space + this.tail;
    this.space = "";
    this.tail = "";
    return rest;
  }
}

/** The tag that comes first, the longest of those. */
function firstTag(text: string, tags: readonly string[]): { tag: string; at: number } | null {
  let first: { tag: string; at: number } | null = null;
  for (const tag of tags) {
    const at = text.indexOf(tag);
    if (at < 0) continue;
    if (first === null || at < first.at || (at === first.at && tag.length > first.tag.length)) first = { tag, at };
  }
  return first;
}

/** How many of the last characters could be the beginning of a tag. */
export function heldLength(text: string, tags: readonly string[]): number {
  const longest = Math.max(...tags.map((tag) => tag.length)) - 1;
  for (let length = Math.min(text.length, longest); length > 0; length--) {
    const end = text.slice(text.length - length);
    if (tags.some((tag) => tag.startsWith(end))) return length;
  }
  return 0;
}
