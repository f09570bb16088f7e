import { expect, test } from "vitest";
import { says } from "../../../test/fixtures/chatHost.js";

test("metrics count what requests came to", async () => {
  const { ask, host, base, loop } = await says("ab");
  await ask({ n: 2 });
  const abort = new AbortController();
  abort.abort();
  await ask({ stop: ["b"] });
  await new Promise((resolve) => setImmediate(resolve));
  const families = host.metrics.families([{ id: base.id, maxAdapters: 64, stats: loop.stats() }]);
  const family = (name: string) => families.find((one) => one.name === name)!;
  expect(family("request_success").samples).toEqual([
    { labels: { model_name: "base", engine: "0", finished_reason: "stop" }, value: 3 },
  ]);
  const lengths = family("request_params_n");
  if (lengths.kind !== "histogram") throw new Error("not a histogram");
  expect(lengths.samples[0]).toMatchObject({ sum: 3, count: 2 });
  expect(lengths.samples[0]!.buckets.at(-1)).toEqual({ le: Number.POSITIVE_INFINITY, count: 2 });
});
