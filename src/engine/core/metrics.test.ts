import { expect, test } from "vitest";
import { says } from "../../../test/fixtures/chatHost.js";

test("metrics count what requests came to", async () => {
  const { ask, host, base, loop } = await says("ab");
  await ask({ n: 2 });
  const abort = new AbortController();
  abort.abort();
  await ask({ stop: ["b"] });
  await new Promise((resolve) => setImmediate(resolve));
  const families = host.metrics.families(
    [{ id: base.id, maxAdapters: 64, differenceToExact: 0, stats: loop.stats() }],
    null,
  );
  const family = (name: string) => families.find((one) => one.name === name)!;
  expect(family("request_success").samples).toEqual([
    { labels: { model_name: "base", engine: "0", finished_reason: "stop" }, value: 3 },
  ]);
  const prompts = family("prompt_tokens_by_source").samples as { labels: object; value: number }[];
  const bySource = prompts.map(({ labels, value }) => [(labels as { source: string }).source, value]);
  const cached = family("prompt_tokens_cached").samples[0] as { value: number };
  const all = family("prompt_tokens").samples[0] as { value: number };
  // A prompt is counted once for each choice when it is computed, and once for a request that has ended.
  expect(bySource.map(([source]) => source)).toEqual(["local_compute", "local_cache_hit"]);
  expect(bySource[1]![1]).toBe(cached.value);
  expect(bySource[0]![1]).toBeGreaterThan(0);
  expect((bySource[0]![1] as number) + cached.value).toBeLessThanOrEqual(all.value);
  expect(family("num_requests_waiting_by_reason").samples).toMatchObject([
    { labels: { reason: "capacity" }, value: 0 },
    { labels: { reason: "deferred" }, value: 0 },
  ]);
  expect(family("engine_sleep_state").samples).toMatchObject([
    { labels: { sleep_state: "awake" }, value: 1 },
    { labels: { sleep_state: "weights_offloaded" }, value: 0 },
    { labels: { sleep_state: "discard_all" }, value: 0 },
  ]);
  const lengths = family("request_params_n");
  if (lengths.kind !== "histogram") throw new Error("not a histogram");
  expect(lengths.samples[0]).toMatchObject({ sum: 3, count: 2 });
  expect(lengths.samples[0]!.buckets.at(-1)).toEqual({ le: Number.POSITIVE_INFINITY, count: 2 });
});
