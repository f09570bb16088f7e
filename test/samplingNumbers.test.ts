import { expect, test } from "vitest";
import { chatParams } from "../src/engine/responses/chatParams.js";
import { samplingNumbers } from "../src/samplingNumbers.js";
import { responseCreate } from "../src/schemas/responseRequests.js";
import { textCompletionCreate } from "../src/schemas/textCompletions.js";

/** A number that one kind of request had no field for, or did not hand on, would be ignored there without a word. */
test.each(samplingNumbers)("$name is asked of every kind of request", ({ name, isWhole, neutral }) => {
  const value = isWhole ? 7 : neutral === 0.5 ? 0.25 : 0.5;
  expect(textCompletionCreate.parse({ prompt: "x", [name]: value })).toMatchObject({ [name]: value });
  expect(chatParams(responseCreate.parse({ input: "x", [name]: value }), [])).toMatchObject({ [name]: value });
});
