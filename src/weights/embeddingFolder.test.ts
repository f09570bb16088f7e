import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { readEmbeddingFolder } from "./embeddingFolder.js";

const SENTENCE = "sentence_bert_config.json";
const TOKENIZER = "tokenizer_config.json";

// sentence-transformers writes the first since version 6 into the tokenizer's configuration.
it.each<[number | null, Record<string, object>]>([
  [128, { [SENTENCE]: { max_seq_length: 128 }, [TOKENIZER]: { model_max_length: 50 } }],
  [50, { [SENTENCE]: { transformer_task: "feature-extraction" }, [TOKENIZER]: { model_max_length: 50 } }],
  [50, { [TOKENIZER]: { model_max_length: 50 } }],
  [null, { [SENTENCE]: { max_seq_length: null }, [TOKENIZER]: { model_max_length: 1e30 } }],
  [null, {}],
])("takes %s tokens of a text where its files are %j", async (wanted, files) => {
  const folder = mkdtempSync(join(tmpdir(), "anneal-embedding-"));
  for (const [name, value] of Object.entries({ "modules.json": [], ...files })) {
    writeFileSync(join(folder, name), JSON.stringify(value));
  }
  expect(await readEmbeddingFolder(folder)).toMatchObject({ maxTokens: wanted });
  rmSync(folder, { recursive: true });
});
