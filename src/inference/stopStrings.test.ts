import { describe, expect, test } from "vitest";
import { cpuMilliseconds } from "../../test/fixtures/cpuTime.js";
import { StopStrings } from "./stopStrings.js";

/** Pushes pieces until a match; what was shown piece by piece, the rest, and the match. */
function run(stops: string[], include: boolean, pieces: string[], unsearched = 0) {
  const strings = new StopStrings(stops, include);
  const shown: string[] = [];
  for (const [i, piece] of pieces.entries()) {
    const result = strings.push(piece, i >= unsearched);
    if (typeof result !== "string") return { shown: [...shown, result.text], stop: result.stop };
    shown.push(result);
  }
  return { shown: [...shown, strings.flush()], stop: null };
}

describe("without the stop string", () => {
  test("the text ends before the match, also when it begins and ends inside pieces", () => {
    const result = run(["END"], false, ["one E", "N", "Dtwo"]);
    expect(result).toEqual({ shown: ["one", " ", ""], stop: "END" });
  });

  test("the last (longest - 1) code points are held back until the end", () => {
    expect(run(["abc", "x"], false, ["12", "3456", "7"])).toEqual({ shown: ["", "1234", "5", "67"], stop: null });
  });

  test("code points, not UTF-16 units, are counted, and no pair is cut", () => {
    expect(run(["ab"], false, ["1😀", "😁2"])).toEqual({ shown: ["1", "😀😁", "2"], stop: null });
    expect(run(["😀😀"], false, ["ab😁", "c"])).toEqual({ shown: ["ab", "😁", "c"], stop: null });
  });
});

test("half of a surrogate pair is found in no character", () => {
  expect(run(["\ud83d", "b\ud83d", "\ude00c"], true, ["ab😀c"])).toEqual({ shown: ["ab😀c", ""], stop: null });
  expect(run(["\ud83d", "c"], false, ["ab😀c"])).toEqual({ shown: ["ab😀"], stop: "c" });
});

describe("with the stop string", () => {
  test("the text ends just after the match, and nothing is held back", () => {
    expect(run(["END"], true, ["one E", "N", "Dtwo"])).toEqual({ shown: ["one E", "N", "D"], stop: "END" });
  });
});

test("of several matches the one that completes first in the text wins, ties by list order", () => {
  expect(run(["cde", "bc"], false, ["abcde"])).toEqual({ shown: ["a"], stop: "bc" });
  expect(run(["bcd", "cd"], false, ["abcd"])).toEqual({ shown: ["a"], stop: "bcd" });
  expect(run(["cd", "bcd"], false, ["abcd"])).toEqual({ shown: ["ab"], stop: "cd" });
});

test("very many are searched at once, for all choices of a request", () => {
  const stops = Array.from({ length: 100_000 }, (_, i) => `stop ${i}.`);
  const choices = Array.from({ length: 64 }, () => new StopStrings(stops, false));
  const begun = cpuMilliseconds();
  for (let i = 0; i < 30; i++) for (const choice of choices) expect(choice.push(" text", true)).toBeTypeOf("string");
  expect(cpuMilliseconds() - begun).toBeLessThan(2000);
  expect(choices[5]!.push(" stop 77777.", true)).toMatchObject({ stop: "stop 77777." });
});

test("a match must end in text that was searched", () => {
  expect(run(["ab"], false, ["ab", "c"], 1)).toEqual({ shown: ["a", "b", "c"], stop: null });
  expect(run(["ab"], false, ["a", "b"], 1)).toEqual({ shown: ["", ""], stop: "ab" });
  // The match may begin in text that was not.
  expect(run(["xab"], false, ["zxa", "b"], 1)).toEqual({ shown: ["z", ""], stop: "xab" });
});

test("matches are found however the text is cut", () => {
  const text = "the quick brown fox jumps over the lazy dog";
  const stops = ["fox j", "lazy", "over"];
  const whole = run(stops, false, [text]);
  for (let size = 1; size < 12; size++) {
    const pieces = text.match(new RegExp(`.{1,${size}}`, "g"))!;
    const cut = run(stops, false, pieces);
    expect([cut.shown.join(""), cut.stop]).toEqual([whole.shown.join(""), "fox j"]);
  }
});
