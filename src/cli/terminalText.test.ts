import { expect, it } from "vitest";
import {
  AuthenticationError,
  ConflictError,
  HomeLockedError,
  InsufficientMemoryError,
  NotFoundError,
  UnavailableError,
} from "../errors.js";
import { hasColor, problem } from "./terminalText.js";

const stream = (isTTY: boolean, has = true) => ({ isTTY, hasColors: () => has });

it.each<[string, ReturnType<typeof stream>, Record<string, string>, boolean]>([
  ["a terminal", stream(true), {}, true],
  ["a terminal without colours", stream(true, false), {}, false],
  ["a pipe", stream(false), {}, false],
  ["NO_COLOR", stream(true), { NO_COLOR: "1" }, false],
  ["an empty NO_COLOR", stream(true), { NO_COLOR: "" }, true],
  ["FORCE_COLOR", stream(false), { FORCE_COLOR: "1", NO_COLOR: "1" }, true],
  ["an empty FORCE_COLOR", stream(false), { FORCE_COLOR: "" }, true],
  ["FORCE_COLOR=0", stream(true), { FORCE_COLOR: "0" }, false],
])("%s", (_, output, environment, expected) => {
  expect(hasColor(output, environment)).toBe(expected);
});

it.each([
  [new HomeLockedError("/home", 7, "http://127.0.0.1:8000"), "--url http://127.0.0.1:8000"],
  [new HomeLockedError("/home", 7, null), "end that process"],
  [
    new NotFoundError("no m", { code: "model_not_found", hint: "models.list() names what there is" }),
    "anneal models list",
  ],
  [new UnavailableError("no b", { code: "base_model_missing", hint: "open the engine with it" }), "--model"],
  [new InsufficientMemoryError("the weights", 2, 1, "models"), "raise --memory-limit"],
  [new InsufficientMemoryError("the weights", 2, 1, "models"), "with --gpu-layers"],
  [new InsufficientMemoryError("a pass", 2, 1, "memoryBudget"), "shorter rows"],
  [new InsufficientMemoryError("all weights", 2, 1, "model"), "train an adapter"],
  [
    new ConflictError("m is there", { code: "model_exists", hint: "or ask for it with return_existing" }),
    "another name",
  ],
  [new AuthenticationError("the API key is not valid"), "--api-key"],
])("says what to do in commands: %s", (error, words) => {
  expect(problem(error)).toContain(words);
  expect(problem(error)).not.toMatch(/Engine\.|\(\)|open the engine|return_existing/);
});
