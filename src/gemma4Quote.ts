/** What Gemma 4 writes before and behind a text among values: a token of its own. */
export const GEMMA4_QUOTE = '<|"|>';
