/**
 * What quantised weights, and a KV cache of 8 bits, cost in quality, against the same models in bfloat16, and whether that is within its gates:
 *
 *   npx tsx benchmarks/quantized.ts [--questions 400] [--conversations 100] [--texts 16]
 *
 * Mean KL divergence of next-token distributions (nats) and agreement of the likeliest token: of the embedded model over what
 * assistants say in held-out conversations, with its accuracy, greedy, on held-out questions; and of random weights at the
 * widths of published models, with channels and weights that stand out, and an entropy, as those of trained models (outlierModel.ts).
 * How often the likeliest token stays depends on how often two tokens are about as likely: entropy and that share are told beside.
 * Exits with 1 where a gate is missed.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { Engine, type ModelOptions } from "../src/index.js";
import { openWeightFiles } from "../src/weights/index.js";
import { outlierFolder } from "./outlierModel.js";
import {
  CHANGES,
  CLOSE,
  type Divergence,
  divergences,
  GATES,
  heldOutConversations,
  missed,
  spreadTexts,
  type Variant,
} from "./quantizationQuality.js";
import { oldSkills, scoreQuestions } from "./skillScores.js";

const { values: options } = parseArgs({
  options: {
    questions: { type: "string", default: "400" },
    conversations: { type: "string", default: "100" },
    texts: { type: "string", default: "16" },
  },
});

/** Share of held-out questions that the embedded model answers rightly. */
async function accuracy(change: Pick<ModelOptions, "quantize" | "kvCache"> = {}): Promise<number> {
  await using engine = await Engine.open(change);
  const scores = await scoreQuestions(oldSkills, Number(options.questions), async (content) => {
    const messages = [{ role: "user" as const, content }];
    const reply = await engine.chat.completions.create({ messages, temperature: 0, max_completion_tokens: 96 });
    return reply.choices[0]!.message.content ?? "";
  });
  return scores.reduce((sum, score) => sum + score, 0) / scores.length;
}

const percent = (share: number) => `${(100 * share).toFixed(1)} %`;
const VARIANTS = Object.keys(CHANGES) as Variant[];
let failures = 0;

function print(model: string, variant: Variant, measured: Divergence, answered?: { right: number; of: number }) {
  const problems = missed(variant, measured);
  const lost = answered && 100 * (answered.of - answered.right);
  if (lost !== undefined && lost > GATES[variant].accuracy) problems.push(`accuracy lower by ${lost.toFixed(1)}`);
  failures += problems.length;
  const { kl, agreement, error, entropy, close } = measured;
  const cells = [model, entropy.toFixed(2), percent(close), variant, kl.toFixed(5)];
  cells.push(`${(100 * agreement).toFixed(2)} ± ${(100 * error).toFixed(2)} %`);
  const told = answered ? `${percent(answered.right)} (of ${percent(answered.of)})` : "";
  console.log(`| ${[...cells, told, problems.length === 0 ? "pass" : `FAIL: ${problems.join(", ")}`].join(" | ")} |`);
}

console.log(
  `| model | entropy, nats | margin below ${CLOSE} | | mean KL | same likeliest token | accuracy | gates |\n|---|---|---|---|---|---|---|---|`,
);
const tiny = fileURLToPath(new URL("../models/tiny", import.meta.url));
const embedded = await divergences(tiny, heldOutConversations(tiny, Number(options.conversations)));
const of = await accuracy();
for (const variant of VARIANTS) {
  print("anneal/tiny", variant, embedded[variant], { right: await accuracy(CHANGES[variant]), of });
}
const folder = mkdtempSync(join(tmpdir(), "anneal-outliers-"));
try {
  for (const shape of ["smollm2-135m", "qwen3-0.6b"]) {
    const path = outlierFolder(folder, shape);
    const { vocab } = (await openWeightFiles(path)).config;
    const measured = await divergences(path, spreadTexts(Number(options.texts), 256, vocab));
    for (const variant of VARIANTS) print(`${shape}, random`, variant, measured[variant]);
  }
} finally {
  rmSync(folder, { recursive: true });
}
const { q8, q4 } = GATES;
console.log(
  `Gates of 8 and of 4 bits: mean KL at most ${q8.kl} and ${q4.kl}, the same likeliest token at least ${percent(q8.agreement)} and ${percent(q4.agreement)}, accuracy within ${q8.accuracy} and ${q4.accuracy} points.`,
);
process.exitCode = failures > 0 ? 1 : 0;
