import { expect, it } from "vitest";
import { runCommand } from "../../src/cli/command.js";
import { demo } from "../../src/cli/demo.js";
import { printed } from "./printed.js";

it("learns on quantised weights", async () => {
  const { code, out } = await printed(() => runCommand(demo, ["--quantize", "q4", "--steps", "6"]));
  const [before, after] = [...out.matchAll(/(\d+) % of 160 replies right/g)].map(([, share]) => Number(share));
  expect(after).toBeGreaterThan(before! + 10);
  expect(code).toBe(0);
}, 300_000);
