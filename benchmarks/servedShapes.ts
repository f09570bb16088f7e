// Folders that an engine serves, and what it is asked there: a shape's random weights have the embedded model's tokenizer.

import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { randomFolder } from "./modelShapes.js";

const tiny = fileURLToPath(new URL("../models/tiny/", import.meta.url));

/** `tiny` is the embedded model; other shapes are random weights in the folder `cache`. */
export function servedFolder(cache: string, shape: string): string {
  if (shape === "tiny") return tiny;
  const folder = randomFolder(cache, shape);
  for (const file of ["tokenizer.json", "tokenizer_config.json"]) copyFileSync(join(tiny, file), join(folder, file));
  return folder;
}

/** Tokens of that tokenizer that are letters. */
export const LETTERS = Array.from({ length: 60 }, (_, i) => 40 + i);

const words = "planet garden river candle monkey silver bridge pepper window tiger".split(" ");
export const sentence = (seed: number, length: number): string =>
  Array.from({ length }, (_, i) => words[(seed * 7 + i * 3 + ((seed * i) >> 2)) % words.length]).join(" ");
