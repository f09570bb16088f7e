// How many tokens of a reply were thoughts.

import { recogniseReasoning, type Tokenizer, USUAL_REASONING } from "../../text/index.js";

/** `thoughts`: what was read as such, not ""; `template`: what says how they are marked. The marks count as neither. */
export async function reasoningTokens(
  tokenizer: Tokenizer,
  template: string,
  ids: readonly number[],
  thoughts: string,
): Promise<number> {
  const { opens, closes } = recogniseReasoning(template) ?? USUAL_REASONING;
  const begin = Math.max(
    0,
    ...opens.map((mark) => (startsWith(ids, tokenizer.encode(mark), 0) ? tokenizer.encode(mark).length : 0)),
  );
  const ends = closes.map((mark) => tokenizer.encode(mark));
  for (let at = begin; at < ids.length; at++) if (ends.some((end) => startsWith(ids, end, at))) return at - begin;
  // Cut off in its thoughts, or its mark is joined to what stands around it.
  const count = (await tokenizer.encodeAsync(thoughts, { addSpecialTokens: false })).length;
  return Math.min(count, ids.length - begin);
}

function startsWith(ids: readonly number[], part: readonly number[], from: number): boolean {
  return part.length > 0 && part.every((id, i) => ids[from + i] === id);
}
