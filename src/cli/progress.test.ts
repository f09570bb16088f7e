import { channel } from "node:diagnostics_channel";
import { PassThrough } from "node:stream";
import { afterEach, expect, it, vi } from "vitest";
import { progressText, withLoadingProgress } from "./progress.js";

afterEach(() => vi.useRealTimers());

it.each([
  [[0, 10, 5], "x [..............................] 0 of 10"],
  [[5, 10, 50], "x [###############...............] 5 of 10, 0.10/s, 50 s left"],
  [[1, 100, 10], "x [..............................] 1 of 100, 0.10/s, 17 min left"],
  [[1, 1001, 10], "x [..............................] 1 of 1001, 0.10/s, 2.8 h left"],
] as const)("%j is %s", ([done, total, seconds], expected) => {
  expect(progressText("x", done, total, seconds)).toBe(expected);
});

it("tells how models are loaded, on a terminal, from a second on", async () => {
  vi.useFakeTimers({ toFake: ["performance"] });
  const output = Object.assign(new PassThrough(), { isTTY: true, columns: 120 }) as unknown as NodeJS.WriteStream;
  const shown: string[] = [];
  output.on("data", (chunk) => shown.push(String(chunk)));
  const progress = (fraction: number) => channel("anneal:model:progress").publish({ id: "m", fraction, bytes: 4e9 });
  await withLoadingProgress(async () => {
    progress(0.1);
    vi.advanceTimersByTime(500);
    progress(0.2);
    expect(shown).toEqual([]);
    vi.advanceTimersByTime(1500);
    progress(0.5);
  }, output);
  expect(shown.join("")).toBe("\r\x1b[Kloading m [###############...............] 50 %, 1000 MB/s, 2 s left\r\x1b[K");
});
