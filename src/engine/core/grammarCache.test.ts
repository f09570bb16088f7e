import { afterAll, beforeAll, expect, it } from "vitest";
import { Engine } from "../../anneal.js";

let engine: Engine;
beforeAll(async () => {
  engine = await Engine.open();
});
afterAll(() => engine.close());

const ask = (regex: string, signal?: AbortSignal) =>
  engine.chat.completions.create(
    { messages: [{ role: "user", content: "hi" }], max_tokens: 4, structured_outputs: { regex } },
    { signal },
  );

/** A second of work each. */
const hard = (i: number) => `(a|b)*a(a|b){18}c{${i}}`;

it("compiles nothing further for requests that were aborted", { timeout: 60_000 }, async () => {
  const abort = new AbortController();
  const reason = new Error("gone");
  const asked = Array.from({ length: 200 }, (_, i) => ask(hard(i), abort.signal).catch((error) => error));
  await new Promise((resolve) => setTimeout(resolve, 100));
  abort.abort(reason);
  expect(new Set(await Promise.all(asked))).toEqual(new Set([reason]));
  expect((await ask("[0-9]{2}")).choices[0]!.message.content).toMatch(/^\d\d$/);
});

it("goes on compiling while another request waits for the same grammar", async () => {
  const abort = new AbortController();
  const leaving = ask("[0-7]{3}", abort.signal);
  const staying = ask("[0-7]{3}");
  abort.abort(new Error("gone"));
  await expect(leaving).rejects.toThrow("gone");
  expect((await staying).choices[0]!.message.content).toMatch(/^[0-7]{3}$/);
});
