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
