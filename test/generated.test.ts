import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { generatedFiles } from "../.generate/files.js";

test("what is made of the schemas and declarations is what they make now; else run `npm run generate`", () => {
  const files = [...generatedFiles()];
  expect(files.length).toBeGreaterThan(9);
  for (const [path, text] of files) expect(readFileSync(path, "utf8"), path).toBe(text);
}, 600_000);
