/**
 * What one machine holds, what crosses the wire beyond it, and how stale and fast rollouts elsewhere are: the numbers of scale.md.
 *
 *   npx tsx benchmarks/scale.ts [--measure] [--write] [--memory-gib 24] [--gbit 10] [--gpu-decode 2500] [--gpu-one 60] [--gpu-train 8000]
 *
 * Speeds of one machine are those of results/speed.md; `--measure` measures the embedded model here instead, and prints it beside them.
 * Bytes are measured in every run: of replies and training rows as they cross the wire, and of an adapter's folder. Speeds of GPUs and
 * of the network are given, not measured: they are printed as such. `--write` puts what is printed into scale.md.
 */
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Engine } from "../src/index.js";
import { openRuntime } from "../src/runtime/runtime.js";
import { toTrain } from "../src/runtime/tinker/tinkerRows.js";
import { JsonFields } from "../src/weights/index.js";
import { modelSpec } from "../src/weights/modelSpec.js";
import { modelShapes } from "./modelShapes.js";
import { type DecodeRates, rolloutSeconds, simulateRun } from "./rolloutSimulation.js";

const { values: options } = parseArgs({
  options: {
    measure: { type: "boolean", default: false },
    write: { type: "boolean", default: false },
    "memory-gib": { type: "string", default: "24" },
    gbit: { type: "string", default: "10" },
    "gpu-decode": { type: "string", default: "2500" },
    "gpu-one": { type: "string", default: "60" },
    "gpu-train": { type: "string", default: "8000" },
  },
});
const memory = Number(options["memory-gib"]) * 2 ** 30;
const bytesPerSecond = (Number(options.gbit) * 1e9) / 8;
const gpu = {
  decode: Number(options["gpu-decode"]),
  one: Number(options["gpu-one"]),
  train: Number(options["gpu-train"]),
};

/** A run of reinforcement learning as people make them. */
const RUN = { groups: 16, groupSize: 8, promptTokens: 256, replyTokens: 512, rank: 16 };
const SHARE_OF_MEMORY = 0.75;
/** What a person reads. */
const READING_TOKENS_PER_SECOND = 10;

const qwen3 = (hidden_size: number, intermediate_size: number, layers: number, heads: number, tied: boolean) => ({
  ...modelShapes["qwen3-0.6b"],
  hidden_size,
  intermediate_size,
  num_hidden_layers: layers,
  num_attention_heads: heads,
  tie_word_embeddings: tied,
});
const SHAPES = {
  "anneal/tiny": JSON.parse(readFileSync(new URL("../models/tiny/config.json", import.meta.url), "utf8")) as object,
  "SmolLM2-135M": modelShapes["smollm2-135m"],
  "Qwen3-0.6B": modelShapes["qwen3-0.6b"],
  "Qwen3-8B": qwen3(4096, 12288, 36, 32, false),
  "Qwen3-32B": qwen3(5120, 25600, 64, 64, false),
} as const;
type Shape = keyof typeof SHAPES;

const lines: string[] = [];
const print = (line = "") => lines.push(line);
const table = (head: string[], rows: (string | number)[][]) => {
  print(`| ${head.join(" | ")} |`);
  print(`|${head.map(() => "---").join("|")}|`);
  for (const row of rows) print(`| ${row.join(" | ")} |`);
  print();
};
const number = (value: number): string =>
  value >= 100 ? Math.round(value).toLocaleString("en-US") : String(Number(value.toPrecision(2)));
const size = (bytes: number): string => {
  const [unit, name] = bytes >= 1e9 ? [1e9, "GB"] : bytes >= 1e6 ? [1e6, "MB"] : [1e3, "kB"];
  return `${number(bytes / unit)} ${name}`;
};
const time = (seconds: number): string =>
  seconds >= 7200
    ? `${number(seconds / 3600)} h`
    : seconds >= 120
      ? `${number(seconds / 60)} min`
      : `${number(seconds)} s`;

/** Steps between publications, and whether rollouts are sampled beside the training. */
const ORDERS = [
  [1, false],
  [4, false],
  [1, true],
] as const;

interface Speeds {
  /** Tokens per second in all, by sequences side by side. */
  decode: DecodeRates;
  prefill: number;
  train: number;
}

/** Medians of the two tables of shapes in results/speed.md. */
function recordedSpeeds(): Partial<Record<Shape, Speeds>> {
  const text = readFileSync(new URL("results/speed.md", import.meta.url), "utf8");
  const from = (start: string): Speeds => {
    const part = text.slice(text.indexOf(start));
    const median = (what: string) => {
      const found = new RegExp(`^\\| ${what}[^|]* \\| ([\\d.]+) \\|`, "m").exec(part);
      if (!found) throw new Error(`results/speed.md has no row "${what}" behind "${start}"`);
      return Number(found[1]);
    };
    const sequences = (count: number) => median(`decode, ${count} sequence`);
    return {
      decode: [1, 8, 16].map((count) => [count, sequences(count)] as const),
      prefill: median("prefill 512"),
      train: median("LoRA step"),
    };
  };
  return { "Qwen3-0.6B": from("## Decode and prefill"), "SmolLM2-135M": from("SmolLM2-135M shape") };
}

/** Of the embedded model, here and now. */
async function measuredSpeeds(engine: Engine): Promise<Speeds> {
  const messages = [{ role: "user", content: "Count." }];
  const decode = async (n: number) => {
    const begin = performance.now();
    const { usage } = await engine.chat.completions.create({ messages, n, max_tokens: 128, ignore_eos: true, seed: 1 });
    return (1000 * usage!.completion_tokens) / (performance.now() - begin);
  };
  await decode(1);
  const rates: [number, number][] = [];
  for (const count of [1, 8, 16]) rates.push([count, await decode(count)]);
  const model = await engine.models.create({ project: "scale", name: "speed", base_model: "anneal/tiny" });
  await using session = await engine.training.open(model);
  const rows = Array.from({ length: 4 }, (_, r) => {
    const tokens = Array.from({ length: 256 }, (_, i) => 5 + ((i * 7 + r) % 600));
    return { tokens, trained: tokens.map(() => 1) };
  });
  const timed = async (work: () => Promise<unknown>) => {
    await work();
    const begin = performance.now();
    await work();
    return (1000 * 4 * 256) / (performance.now() - begin);
  };
  const train = await timed(async () => {
    await session.forwardBackward(rows, { loss: "cross_entropy" });
    await session.optimStep({ learningRate: 1e-5 });
  });
  return { decode: rates, prefill: await timed(() => session.logprobs(rows)), train };
}

/** Bytes of what crosses the wire, per token. */
async function measuredBytes(engine: Engine) {
  const body = JSON.stringify({
    messages: [{ role: "user", content: "Count." }],
    max_tokens: RUN.replyTokens,
    seed: 1,
    ignore_eos: true,
    logprobs: true,
    return_token_ids: true,
  });
  const headers = { authorization: `Bearer ${engine.apiKey}`, "content-type": "application/json" };
  const reply = await engine.fetch("http://anneal/v1/chat/completions", { method: "POST", body, headers });
  const text = await reply.text();
  const { usage } = JSON.parse(text) as { usage: { completion_tokens: number } };
  const length = RUN.promptTokens + RUN.replyTokens;
  const row = {
    tokens: Int32Array.from({ length }, (_, i) => 1000 + ((i * 7919) % 150_000)),
    trained: new Uint8Array(length - 1).fill(1),
    prefixLength: 0,
    logprobs: Float32Array.from({ length: length - 1 }, (_, i) => -((i * 0.37) % 3)),
    slopes: Float32Array.from({ length: length - 1 }, (_, i) => (i < RUN.promptTokens ? 0 : Math.sin(i))),
  };
  const dialect = {
    knowsSequenceNumbers: true,
    clipsGradients: true,
    choosesModules: true,
    leavesMoments: true,
    deletesStates: true,
    speaksProtobuf: false,
    losses: null,
  };
  const training = JSON.stringify(toTrain([row], 1, { ...dialect, reduction: "sum" })).length;
  return { reply: text.length / usage.completion_tokens, training: training / length };
}

const runtime = openRuntime({});
const spec = (shape: Shape) => modelSpec(new JsonFields("config.json", SHAPES[shape] as Record<string, unknown>));

/** Of adapters of all modules, float32. */
function adapterBytes(shape: Shape, rank: number): number {
  const { hidden, layers } = spec(shape);
  return layers.reduce((sum, { attention: attends, feedForward }) => {
    const attention = attends!;
    const [queries, keys] = [attention.heads * attention.headDim, attention.kvHeads * attention.headDim];
    const sides = [
      hidden + queries,
      2 * (hidden + keys),
      queries + hidden,
      ...(feedForward ? [2 * (hidden + feedForward.intermediate), feedForward.intermediate + hidden] : []),
    ];
    return sum + 4 * rank * sides.reduce((a, b) => a + b, 0);
  }, 0);
}

const folder = mkdtempSync(join(tmpdir(), "anneal-scale-"));
try {
  await using engine = await Engine.open();
  const recorded = recordedSpeeds();
  const measured = options.measure ? await measuredSpeeds(engine) : null;
  const speeds: Partial<Record<Shape, Speeds>> = { ...(measured ? { "anneal/tiny": measured } : {}), ...recorded };
  const bytes = await measuredBytes(engine);
  const model = await engine.models.create({
    project: "scale",
    name: "bytes",
    base_model: "anneal/tiny",
    adapter: { rank: RUN.rank },
  });
  const { path } = await engine.models.export(model.id, { path: join(folder, "adapter") });
  const stored = statSync(join(path, "adapter_model.safetensors")).size;
  const reckoned = adapterBytes("anneal/tiny", RUN.rank);
  if (Math.abs(stored / reckoned - 1) > 0.05)
    throw new Error(`an adapter has ${stored} bytes, not the ${reckoned} of the formula`);
  const perStep = RUN.groups * RUN.groupSize;
  const replyTokens = perStep * RUN.replyTokens;
  const trainedTokens = perStep * (RUN.promptTokens + RUN.replyTokens);

  print("### Inputs");
  print();
  table(
    ["input", "value", "from"],
    [
      ["memory of the machine", `${options["memory-gib"]} GiB, ${100 * SHARE_OF_MEMORY} % of it used`, "given"],
      [
        "a step of a run",
        `${RUN.groups} groups of ${RUN.groupSize}, prompts of ${RUN.promptTokens}, replies of ${RUN.replyTokens} tokens`,
        "given",
      ],
      ["reply with ids and logprobs", `${number(bytes.reply)} bytes a token`, "measured"],
      ["row of training as Tinker's JSON", `${number(bytes.training)} bytes a token`, "measured"],
      ["adapter of anneal/tiny, rank 16", `${size(stored)} (formula: ${size(reckoned)})`, "measured"],
      ["network of a machine", `${options.gbit} Gbit/s`, "given"],
      [
        "a GPU, 8B model",
        `${gpu.one} tokens/s alone, ${number(gpu.decode)} in all, ${number(gpu.train)} trained`,
        "given, not measured",
      ],
    ],
  );

  print("### One machine");
  print();
  table(
    [
      "shape",
      "weights, bf16",
      "page of 64",
      "sequences of 2,048 that fit",
      "decode 1 / 8 / 16, tokens/s",
      "prefill",
      "LoRA step",
      "people reading",
      "a step of the run",
    ],
    (Object.keys(SHAPES) as Shape[]).map((shape) => {
      const needs = runtime.memory(spec(shape), "bfloat16");
      const room = SHARE_OF_MEMORY * memory - needs.weights;
      const sequences = Math.floor(room / (needs.page * 32));
      const own = speeds[shape];
      const speed = own
        ? [
            own.decode.map(([, rate]) => number(rate)).join(" / "),
            number(own.prefill),
            number(own.train),
            number(Math.max(...own.decode.map(([, rate]) => rate)) / READING_TOKENS_PER_SECOND),
            time(rolloutSeconds(own.decode, 1, lengths(perStep)) + trainedTokens / own.train),
          ]
        : ["", "", "", "", ""];
      return [
        shape,
        size(needs.weights),
        size(needs.page),
        room > 0 ? number(Math.max(0, sequences)) : "does not fit",
        ...speed,
      ];
    }),
  );

  print("### Over the wire");
  print();
  table(
    ["shape", "adapter, rank 16", "all weights", "adapter to 1 / 10 / 1,000 servers", "all weights to them"],
    (Object.keys(SHAPES) as Shape[]).slice(2).map((shape) => {
      const adapter = adapterBytes(shape, RUN.rank);
      const { weights } = runtime.memory(spec(shape), "bfloat16");
      const to = (one: number) => [1, 10, 1000].map((servers) => time((one * servers) / bytesPerSecond)).join(" / ");
      return [shape, size(adapter), size(weights), to(adapter), to(weights)];
    }),
  );
  print(
    "Every server is sent its own copy by one machine; a shared folder that servers read at once divides that by how many hold it.",
  );
  print();
  table(
    [
      "GPUs",
      "replies, tokens/s",
      "replies, bytes/s",
      "share of the network",
      "rows to train, bytes/s",
      "GPUs that train as fast",
    ],
    [1, 10, 1000].map((count) => {
      const tokens = count * gpu.decode;
      const trained = (tokens * trainedTokens) / replyTokens;
      const share = (100 * tokens * bytes.reply) / bytesPerSecond;
      return [
        count,
        number(tokens),
        size(tokens * bytes.reply),
        `${number(share)} %`,
        size(trained * bytes.training),
        number(trained / gpu.train),
      ];
    }),
  );

  print("### Rollouts elsewhere, simulated");
  print();
  print(
    `A run of 60 steps; replies have lengths between ${Math.min(...lengths(perStep))} and ${Math.max(...lengths(perStep))} tokens. "one after the other" is what \`train\` does; "side by side" would sample the next step's rollouts while one is trained, and is not built.`,
  );
  print();
  const publish = adapterBytes("Qwen3-8B", RUN.rank) / bytesPerSecond;
  const gpuRates: DecodeRates = [
    [1, gpu.one],
    [Math.ceil(gpu.decode / gpu.one) * 2, gpu.decode],
  ];
  const here = recorded["Qwen3-0.6B"]!;
  const cases: { name: string; rates: DecodeRates; servers: number; train: number; publish: number }[] = [
    { name: "Qwen3-0.6B, all here", rates: here.decode, servers: 1, train: here.train, publish: 0 },
    ...[1, 10, 1000].map((servers) => ({
      name: `8B, ${number(servers)} GPUs sample, 1 trains`,
      rates: gpuRates,
      servers,
      train: gpu.train,
      publish: publish * servers,
    })),
    {
      name: "8B, 10 GPUs sample, 10 train",
      rates: gpuRates,
      servers: 10,
      train: 10 * gpu.train,
      publish: publish * 10,
    },
  ];
  table(
    [
      "",
      "published every",
      "order",
      "seconds a step",
      "of it sampling / training / publishing",
      "trained tokens/s",
      "staleness mean / most",
    ],
    cases.flatMap(({ name, rates, servers, train, publish }) =>
      (publish === 0 ? ORDERS.slice(0, 1) : ORDERS).map(([every, overlapped]) => {
        const sampling = rolloutSeconds(rates, servers, lengths(perStep));
        const training = trainedTokens / train;
        const run = simulateRun({ steps: 60, sampling, training, publishing: publish, every, overlapped });
        return [
          name,
          every,
          overlapped ? "side by side" : "one after the other",
          number(run.seconds / 60),
          `${time(sampling)} / ${time(training)} / ${time(publish)}`,
          number((60 * trainedTokens) / run.seconds),
          `${number(run.meanStaleness)} / ${run.maxStaleness}`,
        ];
      }),
    ),
  );
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/** Of replies: most end early, some run on. Quantiles of an exponential distribution of their mean, at most four times it. */
function lengths(count: number): number[] {
  return Array.from({ length: count }, (_, i) =>
    Math.max(1, Math.round(Math.min(4, -Math.log(1 - (i + 0.5) / count)) * RUN.replyTokens)),
  );
}

const text = lines.join("\n").trimEnd();
console.log(text);
if (options.write) {
  const file = new URL("scale.md", import.meta.url);
  const before = readFileSync(file, "utf8");
  const [begin, end] = ["<!-- printed -->\n", "\n<!-- end -->"];
  const from = before.indexOf(begin) + begin.length;
  writeFileSync(file, before.slice(0, from) + text + before.slice(before.indexOf(end)));
}
