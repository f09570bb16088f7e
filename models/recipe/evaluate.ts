/**
 * Held-out accuracy of a model folder, per skill, greedy and at temperature 1, through anneal's own runtime:
 *
 *   npx tsx models/recipe/evaluate.ts [--model models/tiny] [--items 100] [--json <file>]
 *
 * An answer counts when it is exactly one of the right answers of its question. Every item (word, pair of numbers, list, name)
 * comes from the held-out side of the split.
 */
import { writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { openRuntime } from "../../src/runtime/runtime.js";
import { drawConversation } from "./conversation.js";
import { loadFolder } from "./deviceModel.js";
import { Draw } from "./draw.js";
import { generate } from "./generate.js";
import { render, specials } from "./rendering.js";
import { tasks } from "./tasks.js";
import { Encoder, readVocabulary } from "./vocabulary.js";

const { values: options } = parseArgs({
  options: {
    model: { type: "string", default: join(dirname(fileURLToPath(import.meta.url)), "../tiny") },
    items: { type: "string", default: "100" },
    threads: { type: "string", default: "2" },
    json: { type: "string" },
    failures: { type: "string", default: "0" },
  },
});
const perSkill = Number(options.items);
const batch = 64;
const maxTokens = 96;

interface Item {
  group: "skill" | "task";
  name: string;
  prompt: number[];
  shown: string;
  score: (reply: string) => number;
}

function skillItems(encoder: Encoder): Item[] {
  const draw = new Draw(20_001, true);
  const counts = new Map<string, number>();
  const items: Item[] = [];
  // Rare skills fill up last; the bound only ends the search for skills that are asked for very rarely.
  for (let tries = 0; tries < 400 * perSkill; tries++) {
    const conversation = drawConversation(draw);
    const turns = conversation.messages.flatMap((message, at) => (message.role === "assistant" ? [at] : []));
    const last = draw.pick(turns);
    const message = conversation.messages[last];
    if (message?.role !== "assistant") continue;
    const count = counts.get(message.skill) ?? 0;
    if (count >= perSkill) continue;
    counts.set(message.skill, count + 1);
    const text = `${render({ tools: conversation.tools, messages: conversation.messages.slice(0, last) })
      .map((stretch) => stretch.text)
      .join("")}<|im_start|>assistant\n`;
    items.push({
      group: "skill",
      name: message.skill,
      prompt: encoder.encode(text),
      shown: text,
      score: (reply) => Number(message.accepts(reply)),
    });
  }
  return items;
}

function taskItems(encoder: Encoder): Item[] {
  return tasks.flatMap(({ name, example }) => {
    const draw = new Draw(20_002, true);
    return Array.from({ length: perSkill }, (): Item => {
      const { prompt, reward } = example(draw);
      const text = `<|im_start|>user\n${prompt}<|im_end|>\n<|im_start|>assistant\n`;
      return { group: "task", name, prompt: encoder.encode(text), shown: text, score: reward };
    });
  });
}

const encoder = new Encoder(readVocabulary(options.model));
const items = [...skillItems(encoder), ...taskItems(encoder)];
const longest = Math.max(...items.map(({ prompt }) => prompt.length));
const runtime = openRuntime({ threads: Number(options.threads) });
const model = await loadFolder(runtime, options.model, batch * Math.ceil((longest + maxTokens) / 64));

const results = new Map<string, { group: string; name: string; items: number; greedy: number; sampled: number }>();
for (const temperature of [0, 1]) {
  const outputs = await generate(
    model,
    items.map(({ prompt }) => prompt),
    {
      temperature,
      maxTokens,
      batch,
      seed: 1n,
      endIds: [specials.indexOf("<|im_end|>"), specials.indexOf("<|endoftext|>")],
      onProgress: (done) =>
        process.stderr.write(`\r${temperature === 0 ? "greedy" : "temperature 1"} ${done}/${items.length} `),
    },
  );
  process.stderr.write("\n");
  let shownFailures = 0;
  items.forEach((item, i) => {
    const key = `${item.group} ${item.name}`;
    const result = results.get(key) ?? { group: item.group, name: item.name, items: 0, greedy: 0, sampled: 0 };
    results.set(key, result);
    const reply = encoder.decode(outputs[i]!);
    const score = item.score(reply);
    if (temperature === 0) {
      result.items++;
      result.greedy += score;
      if (score === 0 && shownFailures++ < Number(options.failures))
        console.log(`${item.name}: ${item.shown.split("<|im_start|>user\n").at(-1)}${reply}\n`);
    } else result.sampled += score;
  });
}
model.close();
const rows = [...results.values()].sort((a, b) =>
  a.group === b.group ? a.name.localeCompare(b.name) : a.group.localeCompare(b.group),
);
const percent = (right: number, all: number): string => `${((100 * right) / all).toFixed(0)} %`;
for (const { name, items: all, greedy, sampled } of rows) {
  console.log(
    `${name.padEnd(56)} ${String(all).padStart(4)}  greedy ${percent(greedy, all).padStart(5)}  temperature 1 ${percent(sampled, all).padStart(5)}`,
  );
}
const skills = rows.filter(({ group }) => group === "skill");
const total = skills.reduce(
  (sum, row) => ({ items: sum.items + row.items, greedy: sum.greedy + row.greedy, sampled: sum.sampled + row.sampled }),
  { items: 0, greedy: 0, sampled: 0 },
);
console.log(
  `all skills: greedy ${percent(total.greedy, total.items)}, temperature 1 ${percent(total.sampled, total.items)} of ${total.items}`,
);
if (options.json) writeFileSync(options.json, `${JSON.stringify(rows, null, 2)}\n`);
