import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, test, vi } from "vitest";

/** The README's programs, run as they stand there. */
const root = join(import.meta.dirname, "..");
const readme = readFileSync(join(root, "README.md"), "utf8");
const programs = [...readme.matchAll(/```ts\n([\s\S]*?)```/g)].map((match) => match[1]!);

mkdirSync(join(root, ".anneal"), { recursive: true });
const folder = mkdtempSync(join(root, ".anneal", "readme-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Runs a program with a home of its own and answers with the arguments of its console.log calls. */
async function run(name: string, program: string): Promise<unknown[][]> {
  const file = join(folder, `${name}.ts`);
  const home = JSON.stringify(join(folder, `${name}-home`));
  writeFileSync(
    file,
    program.replaceAll('"anneal"', JSON.stringify(join(root, "src/index.ts"))).replaceAll('"./.anneal"', home),
  );
  const log = vi.spyOn(console, "log").mockImplementation(() => undefined);
  try {
    await import(file);
    return log.mock.calls;
  } finally {
    log.mockRestore();
  }
}

test("the five lines that chat print an answer", async () => {
  const [printed] = await run("chat", `${programs[0]}\nawait engine.close();\n`);
  expect(printed?.[0]).toContain("7");
});

test("the lines that train print a reward for every step, and it rises", async () => {
  const printed = await run("train", programs[1]!);
  expect(printed.map(([step]) => step)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
  const rewards = printed.map(([, reward]) => reward as number);
  expect(Math.max(...rewards.slice(4))).toBeGreaterThan(rewards[0]!);
  for (const [, , validation] of printed) expect(validation).toBeTypeOf("number");
});
