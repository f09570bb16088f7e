/**
 * What quantised weights, and a KV cache of 8 bits, cost the embedded model, against itself in bfloat16:
 *
 *   npx tsx benchmarks/quantized.ts [--questions 400] [--conversations 100]
 *
 * Mean KL divergence of next-token distributions (nats) and agreement of the likeliest token, over what assistants say in
 * held-out conversations; accuracy, greedy, on held-out questions.
 */
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { drawConversation } from "../models/recipe/conversation.js";
import { Draw } from "../models/recipe/draw.js";
import { render } from "../models/recipe/rendering.js";
import { Encoder, readVocabulary } from "../models/recipe/vocabulary.js";
import { Engine, type ModelOptions } from "../src/index.js";
import { type DeviceModel, openRuntime } from "../src/runtime/runtime.js";
import { openWeightFiles } from "../src/weights/index.js";
import { pagesFor, plainRow } from "./decodeBatch.js";
import { oldSkills, scoreQuestions } from "./skillScores.js";

const { values: options } = parseArgs({
  options: {
    questions: { type: "string", default: "400" },
    conversations: { type: "string", default: "100" },
  },
});
const folder = fileURLToPath(new URL("../models/tiny", import.meta.url));
const MAX_TOKENS = 512;

/** Tokens of a conversation, and which of them an assistant said. */
interface Spoken {
  tokens: Int32Array;
  isSaid: boolean[];
}

function heldOutConversations(count: number): Spoken[] {
  const encoder = new Encoder(readVocabulary(folder));
  const draw = new Draw(41_001, true);
  return Array.from({ length: count }, () => {
    const tokens: number[] = [];
    const isSaid: boolean[] = [];
    for (const { text, assistant } of render(drawConversation(draw))) {
      for (const id of encoder.encode(text)) {
        tokens.push(id);
        isSaid.push(assistant);
      }
    }
    return { tokens: Int32Array.from(tokens.slice(0, MAX_TOKENS)), isSaid };
  });
}

/** Log-probabilities of all tokens after each token. */
async function distributions(model: DeviceModel, tokens: Int32Array): Promise<Float32Array[]> {
  const blocks = Int32Array.from({ length: pagesFor(1, tokens.length, 0) }, (_, i) => i);
  const next = Int32Array.of(...tokens.subarray(1), -1);
  const row = { ...plainRow, slot: -1, sample: false, tokens, position: 0, blocks, next };
  const { prompt } = await model.step([{ ...row, promptLogprobs: model.config.vocab }]);
  return prompt[0]!.map(({ topIds, topLogprobs }) => {
    const all = new Float32Array(model.config.vocab);
    for (const [i, id] of topIds.entries()) all[id] = topLogprobs[i]!;
    return all;
  });
}

type Change = Pick<ModelOptions, "quantize" | "kvCache">;

async function load({ quantize, kvCache = "exact" }: Change = {}): Promise<DeviceModel> {
  const { config: spec, tensors } = await openWeightFiles(folder, quantize);
  const config = { ...spec, kvCache };
  return openRuntime().load({ config, tensors, dtype: "bfloat16", kvPages: pagesFor(1, MAX_TOKENS, 64) });
}

const best = (logprobs: Float32Array) => logprobs.indexOf(Math.max(...logprobs));

async function divergence(conversations: Spoken[], change: Change): Promise<{ kl: number; agreement: number }> {
  const [whole, changed] = [await load(), await load(change)];
  let [sum, same, count] = [0, 0, 0];
  for (const { tokens, isSaid } of conversations) {
    const [wanted, got] = [await distributions(whole, tokens), await distributions(changed, tokens)];
    for (let t = 0; t + 1 < tokens.length; t++) {
      if (!isSaid[t + 1]) continue;
      const [p, q] = [wanted[t]!, got[t]!];
      for (const [id, logprob] of p.entries()) sum += Math.exp(logprob) * (logprob - q[id]!);
      same += Number(best(p) === best(q));
      count++;
    }
  }
  whole.close();
  changed.close();
  return { kl: sum / count, agreement: same / count };
}

async function accuracy(change: Change = {}): Promise<number> {
  await using engine = await Engine.open(change);
  const scores = await scoreQuestions(oldSkills, Number(options.questions), async (content) => {
    const messages = [{ role: "user" as const, content }];
    const reply = await engine.chat.completions.create({ messages, temperature: 0, max_completion_tokens: 96 });
    return reply.choices[0]!.message.content ?? "";
  });
  return scores.reduce((sum, score) => sum + score, 0) / scores.length;
}

const percent = (share: number) => `${(100 * share).toFixed(1)} %`;
const conversations = heldOutConversations(Number(options.conversations));
console.log(`bfloat16   accuracy ${percent(await accuracy())}`);
const changes: Record<string, Change> = {
  q8: { quantize: "q8" },
  q4: { quantize: "q4" },
  "int8 cache": { kvCache: "int8" },
};
for (const [name, change] of Object.entries(changes)) {
  const { kl, agreement } = await divergence(conversations, change);
  console.log(
    `${name.padEnd(10)} accuracy ${percent(await accuracy(change))}, KL ${kl.toFixed(5)}, same likeliest token ${percent(agreement)}`,
  );
}
