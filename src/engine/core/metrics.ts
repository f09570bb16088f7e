// What the engine counts about inference, under the names of vLLM's metrics, as data: the server writes it out.

import type { GenerationRecord, InferenceStats } from "../../inference/index.js";
import { Histogram, type MetricFamily, type MetricLabels, type MetricSample } from "./metricFamilies.js";

/** One request that has ended, successfully or not. */
export interface FinishedRequest {
  /** Id of the base model. */
  model: string;
  promptTokens: number;
  maxTokens: number;
  record: Readonly<GenerationRecord>;
}

/** A request that has been taken on. */
export interface StartedRequest {
  /** Id of the base model. */
  model: string;
  /** The trained model it asks, and whose that is; null: the base model itself. */
  adapter: { name: string; entity: string } | null;
  record: Readonly<GenerationRecord>;
}

/** What a model's loop reports when it is asked. */
export interface ObservedModel {
  id: string;
  /** Trained models that one step may hold. */
  maxAdapters: number;
  /** Of log-probabilities, from those of exact arithmetic: the mean, measured when it was loaded. */
  differenceToExact: number;
  stats: InferenceStats;
}

const SHORT_TIMES = [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80];
const STEP_TIMES = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5];
const LONG_TIMES = [0.05, 0.1, 0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960];
const TOKENS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000];
const CHOICES = [1, 2, 5, 10, 20];

const SLEEP_STATES = ["awake", "weights_offloaded", "discard_all"];

const labelsOf = (model: string): MetricLabels => ({ model_name: model, engine: "0" });

export class InferenceMetrics {
  /** Requests under way that ask a trained model. */
  private readonly adapted = new Map<
    Readonly<GenerationRecord>,
    { model: string; adapter: { name: string; entity: string } }
  >();
  private readonly finished = new Map<string, Map<string, number>>();
  /** Prompt tokens of ended requests, and those of them that were cached; by model. */
  private readonly prompts = new Map<string, number>();
  private readonly cached = new Map<string, number>();
  private readonly timeToFirstToken = new Histogram(
    "time_to_first_token_seconds",
    "Time from arrival to the first token.",
    SHORT_TIMES,
  );
  private readonly interTokenLatency = new Histogram(
    "inter_token_latency_seconds",
    "Mean time between tokens of a request, observed once per pair of tokens.",
    STEP_TIMES,
  );
  private readonly timePerOutputToken = new Histogram(
    "request_time_per_output_token_seconds",
    "Mean time per output token after the first.",
    STEP_TIMES,
  );
  private readonly latency = new Histogram("e2e_request_latency_seconds", "Time from arrival to the end.", LONG_TIMES);
  private readonly queueTime = new Histogram(
    "request_queue_time_seconds",
    "Time from arrival to the first step.",
    LONG_TIMES,
  );
  private readonly prefillTime = new Histogram(
    "request_prefill_time_seconds",
    "Time from the first step to the first token.",
    LONG_TIMES,
  );
  private readonly decodeTime = new Histogram(
    "request_decode_time_seconds",
    "Time from the first token to the end.",
    LONG_TIMES,
  );
  private readonly inferenceTime = new Histogram(
    "request_inference_time_seconds",
    "Time from the first step to the end.",
    LONG_TIMES,
  );
  private readonly promptLengths = new Histogram("request_prompt_tokens", "Prompt tokens of a request.", TOKENS);
  private readonly computedPrompts = new Histogram(
    "request_prefill_kv_computed_tokens",
    "Prompt tokens of a request that were not cached.",
    TOKENS,
  );
  private readonly outputLengths = new Histogram(
    "request_generation_tokens",
    "Output tokens of a request, over all its choices.",
    TOKENS,
  );
  private readonly longestOutputs = new Histogram(
    "request_max_num_generation_tokens",
    "Output tokens of a request's longest choice.",
    TOKENS,
  );
  private readonly choices = new Histogram("request_params_n", "Choices asked for.", CHOICES);
  private readonly limits = new Histogram("request_params_max_tokens", "Output tokens allowed.", TOKENS);

  requestStarted({ model, adapter, record }: StartedRequest): void {
    if (adapter !== null) this.adapted.set(record, { model, adapter });
  }

  requestFinished({ model, promptTokens, maxTokens, record }: FinishedRequest): void {
    this.adapted.delete(record);
    const { arrival, scheduled, firstToken, finished, outputTokens } = record;
    const labels = labelsOf(model);
    const n = outputTokens.length;
    const generated = outputTokens.reduce((sum, tokens) => sum + tokens, 0);
    const longest = Math.max(...outputTokens);
    const seconds = (from: number, to: number) => (to - from) / 1000;
    this.cached.set(model, (this.cached.get(model) ?? 0) + record.cachedTokens);
    if (scheduled > 0) this.prompts.set(model, (this.prompts.get(model) ?? 0) + promptTokens);
    const reasons = this.finished.get(model) ?? new Map<string, number>();
    this.finished.set(model, reasons);
    for (const finish of record.finishes) {
      const reason = finish?.reason ?? "abort";
      reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
    }
    this.latency.observe(labels, seconds(arrival, finished));
    this.promptLengths.observe(labels, promptTokens);
    this.computedPrompts.observe(labels, promptTokens - record.cachedTokens);
    this.outputLengths.observe(labels, generated);
    this.longestOutputs.observe(labels, longest);
    this.choices.observe(labels, n);
    this.limits.observe(labels, maxTokens);
    if (scheduled === 0) return;
    this.queueTime.observe(labels, seconds(arrival, scheduled));
    this.inferenceTime.observe(labels, seconds(scheduled, finished));
    if (firstToken === 0) return;
    this.timeToFirstToken.observe(labels, seconds(arrival, firstToken));
    this.prefillTime.observe(labels, seconds(scheduled, firstToken));
    this.decodeTime.observe(labels, seconds(firstToken, finished));
    if (longest < 2) return;
    const perToken = seconds(firstToken, finished) / (longest - 1);
    this.timePerOutputToken.observe(labels, perToken);
    this.interTokenLatency.observe(labels, perToken, Math.max(1, generated - n));
  }

  private adapterLabels({ id: model, maxAdapters }: ObservedModel, entity: string | null): MetricLabels {
    const names = { running: new Set<string>(), waiting: new Set<string>() };
    for (const [{ scheduled }, { model: asked, adapter }] of this.adapted) {
      if (asked !== model || (entity !== null && adapter.entity !== entity)) continue;
      names[scheduled > 0 ? "running" : "waiting"].add(adapter.name);
    }
    const list = (set: ReadonlySet<string>) => [...set].join(",");
    return {
      ...labelsOf(model),
      max_lora: String(maxAdapters),
      running_lora_adapters: list(names.running),
      waiting_lora_adapters: list(names.waiting),
    };
  }

  /** Everything, with the present state of the models' loops; of trained models the names of an entity's, null: of all. */
  families(models: readonly ObservedModel[], entity: string | null): MetricFamily[] {
    const perModel = (value: (stats: InferenceStats) => number): MetricSample[] =>
      models.map(({ id, stats }) => ({ labels: labelsOf(id), value: value(stats) }));
    const success = [...this.finished].flatMap(([model, reasons]) =>
      [...reasons].map(([reason, value]) => ({ labels: { ...labelsOf(model), finished_reason: reason }, value })),
    );
    return [
      gauge(
        "num_requests_running",
        "Sequences being computed.",
        perModel((stats) => stats.running),
      ),
      gauge(
        "num_requests_waiting",
        "Sequences waiting for a place.",
        perModel((stats) => stats.waiting),
      ),
      gauge(
        "num_requests_waiting_by_reason",
        "Sequences waiting, by what for: all wait for a place (capacity), none is put off (deferred).",
        models.flatMap(({ id, stats }) => [
          { labels: { ...labelsOf(id), reason: "capacity" }, value: stats.waiting },
          { labels: { ...labelsOf(id), reason: "deferred" }, value: 0 },
        ]),
      ),
      gauge(
        "engine_sleep_state",
        "1 for the state that the engine is in: it does not sleep.",
        models.flatMap(({ id }) =>
          SLEEP_STATES.map((state) => ({
            labels: { ...labelsOf(id), sleep_state: state },
            value: state === "awake" ? 1 : 0,
          })),
        ),
      ),
      gauge(
        "kv_cache_usage_perc",
        "Share of cache pages in use; 1 is all.",
        perModel((stats) => stats.cacheUsage),
      ),
      gauge(
        "logprob_difference_to_exact",
        "Mean absolute difference of a text's log-probabilities from exact arithmetic; 0 where precision is exact.",
        models.map(({ id, differenceToExact }) => ({ labels: labelsOf(id), value: differenceToExact })),
      ),
      {
        name: "cache_config_info",
        help: "The key-value cache.",
        kind: "gauge",
        samples: models.map(({ id, stats }) => ({
          labels: { ...labelsOf(id), block_size: "64", num_gpu_blocks: String(stats.pages) },
          value: 1,
        })),
      },
      {
        name: "lora_requests_info",
        help: "Trained models that are being asked; the value is the time, Unix seconds.",
        kind: "gauge",
        samples: models.map((model) => ({ labels: this.adapterLabels(model, entity), value: Date.now() / 1000 })),
      },
      counter(
        "prompt_tokens",
        "Prompt tokens.",
        perModel((stats) => stats.promptTokens),
      ),
      counter(
        "prompt_tokens_cached",
        "Prompt tokens of ended requests that were cached.",
        models.map(({ id }) => ({ labels: labelsOf(id), value: this.cached.get(id) ?? 0 })),
      ),
      counter(
        "prompt_tokens_by_source",
        "Prompt tokens of ended requests, by where they came from.",
        models.flatMap(({ id }) => {
          const cached = this.cached.get(id) ?? 0;
          const sources = { local_compute: (this.prompts.get(id) ?? 0) - cached, local_cache_hit: cached };
          return Object.entries(sources).map(([source, value]) => ({ labels: { ...labelsOf(id), source }, value }));
        }),
      ),
      counter(
        "generation_tokens",
        "Output tokens.",
        perModel((stats) => stats.generatedTokens),
      ),
      counter(
        "num_preemptions",
        "Sequences computed again for want of pages.",
        perModel((stats) => stats.preemptions),
      ),
      counter(
        "prefix_cache_queries",
        "Prompt tokens looked up in the prefix cache.",
        perModel((stats) => stats.cacheQueries),
      ),
      counter(
        "prefix_cache_hits",
        "Prompt tokens found in the prefix cache.",
        perModel((stats) => stats.cacheHits),
      ),
      counter(
        "spec_decode_num_drafts",
        "Times that tokens to come were guessed.",
        perModel((stats) => stats.drafts),
      ),
      counter(
        "spec_decode_num_draft_tokens",
        "Tokens computed because they were guessed.",
        perModel((stats) => stats.draftedTokens),
      ),
      counter(
        "spec_decode_num_accepted_tokens",
        "Of those, the ones that came to follow.",
        perModel((stats) => stats.keptTokens),
      ),
      counter("request_success", "Choices that ended.", success),
      this.timeToFirstToken.family(),
      this.interTokenLatency.family(),
      this.timePerOutputToken.family(),
      this.latency.family(),
      this.queueTime.family(),
      this.prefillTime.family(),
      this.decodeTime.family(),
      this.inferenceTime.family(),
      this.promptLengths.family(),
      this.computedPrompts.family(),
      this.outputLengths.family(),
      this.longestOutputs.family(),
      this.choices.family(),
      this.limits.family(),
      {
        name: "iteration_tokens_total",
        help: "Tokens in one step.",
        kind: "histogram",
        samples: models.map(({ id, stats }) => ({
          labels: labelsOf(id),
          buckets: stats.stepSizes,
          sum: stats.stepTokens,
          count: stats.steps,
        })),
      },
    ];
  }
}

function gauge(name: string, help: string, samples: MetricSample[]): MetricFamily {
  return { name, help, kind: "gauge", samples };
}

function counter(name: string, help: string, samples: MetricSample[]): MetricFamily {
  return { name, help, kind: "counter", samples };
}
