import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { drawConversation } from "../models/recipe/conversation.js";
import { Draw } from "../models/recipe/draw.js";
import { vocabularySample, vocabularySize } from "../models/recipe/folder.js";
import { render } from "../models/recipe/rendering.js";
import { buildVocabulary, Encoder, readVocabulary } from "../models/recipe/vocabulary.js";
import { compileChatTemplate, loadTokenizer, renderConversation } from "../src/text/index.js";

const folder = fileURLToPath(new URL("../models/tiny", import.meta.url));
const tokenizer = await loadTokenizer(folder);
const vocabulary = readVocabulary(folder);

describe("the embedded model's folder", () => {
  it("holds the vocabulary its recipe builds", () => {
    expect(vocabulary).toEqual(buildVocabulary(vocabularySize, vocabularySample));
  });

  it("encodes and renders conversations as its training rows were made", () => {
    const encoder = new Encoder(vocabulary);
    const template = compileChatTemplate(tokenizer.chatTemplate!);
    for (const heldOut of [false, true]) {
      const draw = new Draw(3, heldOut);
      for (let i = 0; i < 200; i++) {
        const conversation = drawConversation(draw);
        const text = render(conversation)
          .map((stretch) => stretch.text)
          .join("");
        const messages = conversation.messages.map((message, index) =>
          message.role === "assistant" && message.toolCall
            ? {
                role: "assistant",
                content: null,
                tool_calls: [
                  {
                    id: `call-${index}`,
                    type: "function",
                    function: { name: message.toolCall.name, arguments: JSON.stringify(message.toolCall.arguments) },
                  },
                ],
              }
            : { role: message.role, content: message.content },
        );
        const rendered = renderConversation(template, {
          messages,
          tools: conversation.tools,
          addGenerationPrompt: false,
        });
        expect(rendered).toBe(text);
        expect(tokenizer.encode(text)).toEqual(encoder.encode(text));
      }
    }
  });

  it("encodes any text without loss", () => {
    const text = "Hello wörld… 你好 🙂\n\n  two  spaces\t\ttab \r\n don't 12345 ÀÉ  ";
    expect(tokenizer.decode(tokenizer.encode(text))).toBe(text);
  });
});
