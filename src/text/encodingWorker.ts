// The thread that encodes long texts: the same tokenizer, read from the same folder.

import { parentPort, workerData } from "node:worker_threads";
import { type KeptTokens, keptTokens, loadTokenizer, type Tokenizer } from "./tokenizer.js";

/** The tokenizer to be: its folder, and the hash of its files when they were first read. */
export interface EncodingThreadData {
  folder: string;
  hash: string;
}

export interface EncodingTask {
  text: string;
  addSpecialTokens: boolean;
  /** null: all. */
  keep: KeptTokens | null;
}

export interface EncodedMessage {
  ids: Int32Array;
  /** Why there are no ids; null: there are. */
  failure: string | null;
}

async function sameTokenizer({ folder, hash }: EncodingThreadData): Promise<Tokenizer> {
  const tokenizer = await loadTokenizer(folder);
  if (tokenizer.hash === hash) return tokenizer;
  throw new Error(`the tokenizer in ${folder} has changed since it was loaded; open the engine again`);
}

function encode(tokenizer: Tokenizer, { text, addSpecialTokens, keep }: EncodingTask): EncodedMessage {
  const ids = tokenizer.encode(text, { addSpecialTokens });
  return { ids: Int32Array.from(keptTokens(ids, keep)), failure: null };
}

if (parentPort !== null) {
  const port = parentPort;
  const tokenizer = sameTokenizer(workerData as EncodingThreadData);
  // Whoever waits for a text is told; without a text nobody needs to know.
  tokenizer.catch(() => undefined);
  port.on("message", (task: EncodingTask) => {
    tokenizer
      .then((loaded) => encode(loaded, task))
      .catch((error: Error) => ({ ids: new Int32Array(0), failure: error.message }))
      .then((answer: EncodedMessage) => port.postMessage(answer, [answer.ids.buffer as ArrayBuffer]));
  });
}
