import { expect, it } from "vitest";
import { bench } from "../../src/cli/bench.js";
import { runCommand } from "../../src/cli/command.js";
import { printed } from "./printed.js";

it("measures prompts, replies and training", async () => {
  const { code, out } = await printed(() => runCommand(bench, ["--repeats", "1", "--context-length", "128"]));
  expect(code).toBe(0);
  const [model, ...rows] = out.trim().split("\n");
  expect(model).toBe("anneal/tiny, context of 128 tokens");
  expect(rows.map((row) => row.replace(/ +[\d.]+ tokens\/s {2}\[[\d.]+ - [\d.]+\]$/, ""))).toEqual([
    "prompt of 64 tokens",
    "1 reply",
    "8 replies at once",
    "16 replies at once",
    "training, 4 rows of 128 tokens",
  ]);
});

it("tells other programs what it measured", async () => {
  const { out } = await printed(() => runCommand(bench, ["--json", "--repeats", "1", "--context-length", "128"]));
  const { model, context, results } = JSON.parse(out);
  expect([model, context, results.length]).toEqual(["anneal/tiny", 128, 5]);
  for (const { what, median, slowest, fastest } of results) {
    expect(what).toMatch(/prompt|repl|training/);
    expect(median).toBeGreaterThan(0);
    expect([slowest, fastest]).toEqual([median, median]);
  }
});
