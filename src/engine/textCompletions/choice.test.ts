import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { packageFolder } from "../../packageFiles.js";
import { loadTokenizer } from "../../text/index.js";
import { TextChoiceWriter } from "./choice.js";

test("the logprob under a token's text is its own, though others share the text", async () => {
  const tokenizer = await loadTokenizer(fileURLToPath(new URL("models/tiny", packageFolder())));
  const options = { tokenizer, logprobs: 3, tokensAsIds: false, skipSpecialTokens: true };
  const writer = new TextChoiceWriter({ ...options, returnTokenIds: false, isEmpty: false });
  // First bytes of characters of two: none has a text before the second byte has come.
  const [first, second, third] = ["é", "Ā", "ɐ"].map((character) => tokenizer.encode(character)[0]!);
  const { logprobs } = writer.write({
    type: "tokens",
    index: 0,
    text: "",
    tokenIds: [second!],
    logprobs: [-2],
    temperatureLogprobs: null,
    top: [{ ids: Int32Array.of(first!, second!, third!), logprobs: Float32Array.of(-1, -2, -3) }],
    finish: null,
  });
  expect(logprobs).toMatchObject({ tokens: [""], token_logprobs: [-2], top_logprobs: [{ "": -2 }] });
  await tokenizer.close();
});
