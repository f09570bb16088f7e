// A vocabulary for files that are written to be computed with, and not to read texts.

import type { VocabularySource } from "../../src/gguf/vocabularyMetadata.js";

export const vocabulary: VocabularySource = {
  file: "tokenizer.json",
  tokenizer: { model: { type: "BPE", vocab: { a: 0 }, merges: [] } },
  vocabulary: new Map([[0, "a"]]),
  addedTokens: [],
  specialTokens: {},
  chatTemplates: new Map(),
  addsBos: false,
  addsEos: false,
  endIds: [0],
};
