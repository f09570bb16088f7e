// A default is told in the schemas and filled in by those who use it: both are the same.

import { expect, test } from "vitest";
import type { z } from "zod";
import { chatCompletionCreate } from "../src/schemas/chat.js";
import { documentation } from "../src/schemas/fields.js";
import { experimentalConfig, sftConfig } from "../src/schemas/jobs.js";
import { orderedPageQuery } from "../src/schemas/pages.js";
import { validate } from "../src/schemas/validate.js";
import { resolvePolicy } from "../src/training/policy.js";
import { resolveSftSettings } from "../src/training/sftRecipe.js";

/** Every field that is documented with a default, holding it. */
function defaultsOf(schema: z.ZodObject): Record<string, unknown> {
  const fields = Object.entries(schema.shape as z.ZodRawShape).map(([name, field]) => [
    name,
    documentation.get(field as z.ZodType)?.default,
  ]);
  return Object.fromEntries(fields.filter(([, value]) => value !== undefined));
}

test("of a reinforcement learning job", () => {
  const defaults = defaultsOf(experimentalConfig);
  expect(Object.keys(defaults).length).toBeGreaterThan(12);
  expect(resolvePolicy(defaults, 3)).toEqual(resolvePolicy({}, 3));
});

test("of a supervised job", () => {
  const defaults = defaultsOf(sftConfig);
  expect(Object.keys(defaults).length).toBeGreaterThan(8);
  expect(resolveSftSettings(defaults, 3)).toEqual(resolveSftSettings({}, 3));
});

test("of a chat completion", () => {
  const messages = [{ role: "user", content: "Hi" }];
  const request = chatCompletionCreate;
  const { top_logprobs, frequency_penalty, presence_penalty, ...defaults } = defaultsOf(request);
  expect(Object.keys(defaults).length).toBeGreaterThan(15);
  expect(validate(request, { messages, ...defaults })).toEqual(validate(request, { messages }));
  // Filled in later, where a request is resolved.
  expect({ top_logprobs, frequency_penalty, presence_penalty }).toEqual({
    top_logprobs: 0,
    frequency_penalty: 0,
    presence_penalty: 0,
  });
});

test("of a page", () => {
  expect(defaultsOf(orderedPageQuery)).toEqual({ limit: 20, order: "asc" });
  expect(validate(orderedPageQuery, {})).toEqual({ limit: 20, order: "asc" });
});
