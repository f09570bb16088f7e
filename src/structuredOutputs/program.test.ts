import { expect, it } from "vitest";
import { turnsDuring } from "../../test/fixtures/turns.js";
import { encodeGrammar } from "../grammar/ir.js";
import { type Constraint, constraintGrammar } from "./constraint.js";
import { constraintText } from "./constraintText.js";
import { constraintProgram } from "./program.js";

const programOf = async (constraint: Constraint, signal?: AbortSignal) =>
  constraintProgram(await constraintText(constraint), setting, signal);

const setting = { specialTokens: new Map<string, number>(), thoughts: null } as const;
const format = {
  whitespacePattern: null,
  disableAnyWhitespace: false,
  disableAdditionalProperties: false,
  anyOrder: false,
};
const choice = (count: number): Constraint => ({
  kind: "json_schema",
  schema: { enum: Array.from({ length: count }, (_, i) => `value ${i}`) },
  format,
});

/** Alternatives that are compared with each other, each pair of which may hold together. */
function overlapping(count: number): Constraint {
  const oneOf = Array.from({ length: count }, (_, i) => ({
    properties: { a: { pattern: `^x${i}` }, b: { pattern: `y${i}` } },
  }));
  return { kind: "json_schema", schema: { oneOf }, format };
}

it("is the same whether it is read here or in a thread, and other work has its turn meanwhile", async () => {
  const few = choice(3);
  expect(await programOf(few)).toEqual(encodeGrammar(constraintGrammar(few, setting)));
  const many = choice(100_000);
  const expected = encodeGrammar(constraintGrammar(many, setting));
  const turns = await turnsDuring(async () => expect(await programOf(many)).toEqual(expected));
  expect(turns).toBeGreaterThan(5);
});

it("that is too much work is refused as it is here, but not in this thread", async () => {
  const constraint = overlapping(1000);
  expect(() => constraintGrammar(constraint, setting)).toThrow("too much work");
  const turns = await turnsDuring(() => expect(programOf(constraint)).rejects.toThrow("too much work"));
  expect(turns).toBeGreaterThan(5);
});

it("ends its thread when it is aborted", async () => {
  const abort = new AbortController();
  const reading = Array.from({ length: 8 }, () => programOf(overlapping(1000), abort.signal));
  const ended = Promise.allSettled(reading);
  setTimeout(() => abort.abort(new Error("gone")), 100);
  for (const outcome of await ended) expect(outcome).toMatchObject({ reason: { message: "gone" } });
  expect(await programOf(choice(100_000))).toBeInstanceOf(Int32Array);
});
