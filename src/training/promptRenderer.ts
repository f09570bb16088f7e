// How training turns conversations into ids: as the chat completions of the same base model do.

import { ValidationError } from "../errors.js";
import { callsOneByOne, isHarmony, recogniseReasoning, type Tokenizer } from "../text/index.js";
import type { TrajectoryMessage, TrajectoryTool } from "../types/trajectories.js";
import type { ConversationRenderer } from "./conversationRows.js";
import type { TrainingBase } from "./trainingBase.js";
import type { PromptRenderer } from "./trajectoryRows.js";

/** Everything that rows of either kind need of a base model. `now` is the time in templates that show it. */
export function createPromptRenderer(
  base: Pick<TrainingBase, "id" | "tokenizer" | "template" | "generationConfig"> & {
    device: { config: { vocab: number } };
  },
  now: Date,
): PromptRenderer & ConversationRenderer & { readonly hasTemplate: boolean } {
  const { tokenizer, template } = base;
  const endIds = new Set(base.generationConfig.eos_token_id);
  if (tokenizer.eosId !== null) endIds.add(tokenizer.eosId);
  const header = (template && recogniseReasoning(template.source)?.messages?.answers[0]) ?? "";
  let byBytes: Map<string, number> | null = null;

  const textAt = async (
    messages: readonly TrajectoryMessage[],
    tools: readonly TrajectoryTool[] | null,
    open: boolean,
    time: Date,
    signal?: AbortSignal,
  ) => {
    if (template === null) {
      throw new ValidationError([
        { loc: ["body", "model_id"], msg: `the base model "${base.id}" has no chat template`, type: "value_error" },
      ]);
    }
    const conversation = {
      messages: messages.map((message) => ({ ...message })),
      tools,
      addGenerationPrompt: open,
      specialTokens: tokenizer.specialTokens,
      now: time,
    };
    return tokenizer.renderAsync(template, conversation, signal);
  };
  return {
    // The model may know more ids than its tokenizer has texts for, and sample them.
    vocabSize: base.device.config.vocab,
    hasTemplate: template !== null,
    endIds,
    text: (messages, tools, open, signal) => textAt(messages, tools, open, now, signal),
    replies: (messages) => (template !== null && isHarmony(template.source) ? callsOneByOne(messages) : messages),
    encodeRendered: (rendered, signal) => tokenizer.encodeAsync(rendered, { signal }),
    async prompt(messages, tools, time, signal) {
      return tokenizer.encodeAsync(await textAt(messages, tools, true, time ?? now, signal), { signal });
    },
    encodeAnswer: (answer, signal) => tokenizer.encodeAsync(header + answer, { signal }),
    idOfBytes(bytes) {
      byBytes ??= idsByBytes(tokenizer);
      return byBytes.get(Buffer.from(bytes).toString("latin1")) ?? null;
    },
  };
}

/** Of several tokens with the same bytes the first counts. */
function idsByBytes(tokenizer: Tokenizer): Map<string, number> {
  const ids = new Map<string, number>();
  for (let id = 0; id < tokenizer.vocabSize; id++) {
    const bytes = tokenizer.tokenBytes(id);
    const key = Buffer.from(bytes).toString("latin1");
    if (bytes.length > 0 && !ids.has(key)) ids.set(key, id);
  }
  return ids;
}
