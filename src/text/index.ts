export * from "./errors.js";
export type { DecodeOptions, IncrementalDecoder } from "./incrementalDecoder.js";
export { type EncodeOptions, loadTokenizer, Tokenizer } from "./tokenizer.js";
