import { expect, it } from "vitest";
import { hasColor } from "./terminalText.js";

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
