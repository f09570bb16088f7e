import { describe, expect, it } from "vitest";
import { recogniseReasoning } from "./reasoning.js";
import { createReplyParser, parseReply, type ReplyStart, type ReplySyntax } from "./replyParser.js";

const format = recogniseReasoning("<|turn>")!;
const offeredTools = new Map<string, unknown>([["f", {}]]);
const syntax: ReplySyntax = { reasoning: format, toolFormat: "gemma4", offeredTools };
const SIGN = "\ud800";
const withSigns: ReplySyntax = { ...syntax, specialTokenSign: SIGN };
const NOTHING: ReplyStart = { thought: null, begun: null };

function streamed(text: string, size: number, start = NOTHING, how = syntax, asTheyCome = true) {
  const parser = createReplyParser(how, start, asTheyCome);
  const pieces = Array.from({ length: Math.ceil(text.length / size) }, (_, i) => text.slice(i * size, (i + 1) * size));
  const read = { reasoning: "", content: "", toolCalls: [] as { name: string; arguments: string }[] };
  for (const { reasoning, content, toolCalls } of [...pieces.map((piece) => parser.push(piece)), parser.flush()]) {
    read.reasoning += reasoning;
    read.content += content;
    for (const { index, name, arguments: given } of toolCalls) {
      if (name !== undefined) read.toolCalls[index] = { name, arguments: "" };
      read.toolCalls[index]!.arguments += given;
    }
  }
  return read;
}

function expectReply(text: string, reasoning: string, content: string, calls: string[] = [], start = NOTHING) {
  const expected = { reasoning, content, toolCalls: calls.map((given) => ({ name: "f", arguments: given })) };
  expect(parseReply(text, syntax, start), text).toEqual(expected);
  for (const size of [1, 2, 3, 7, 11]) expect(streamed(text, size, start), `${size}: ${text}`).toEqual(expected);
}

const thought = (text: string) => `<|channel>thought\n${text}<channel|>`;
const call = '<|tool_call>call:f{x:<|"|>a<|"|>}<tool_call|>';
const given = '{"x": "a"}';

describe("a reply that may think again", () => {
  it("thinks, answers and calls", () => {
    expectReply("Hi.", "", "Hi.");
    expectReply(" Hi.\n", "", " Hi.\n");
    expectReply(`${thought("Hm.\n")}\nHi.`, "Hm.", "Hi.");
    expectReply(`\n${thought("Hm.")}${call}`, "Hm.", "", [given]);
    expectReply(thought(""), "", "");
    expectReply(`${thought("\n")}Hi.`, "", "Hi.");
    expectReply(`${thought("Hm.")}I ask.\n${call}${call}`, "Hm.", "I ask.\n", [given, given]);
  });

  it("thinks behind what it said and called, and between", () => {
    expectReply(`${thought("One.")}A.${thought("Two.\n")}B.`, "One.\n\nTwo.", "A.\n\nB.");
    expectReply(`A.\n${thought("One.")}${call}`, "One.", "A.\n", [given]);
    expectReply(`A.${thought("One.")}\n\n${call}B.`, "One.", "A.\n\nB.", [given]);
    expectReply(`${call}${thought("One.")}${call}`, "One.", "", [given, given]);
    expectReply(`${thought("One.")}${thought("Two.")}`, "One.\n\nTwo.", "");
    expectReply(`Hi.${thought("")}`, "", "Hi.");
    expectReply(`<|tool_call>${thought("One.")}${call}`, "One.", "<|tool_call>", [given]);
  });

  it("forgives marks that close nothing, and takes others for what they are", () => {
    expectReply("Hi.<channel|>", "", "Hi.");
    expectReply(`${thought("One.")}Hi.<channel|> Ho.`, "One.", "Hi. Ho.");
    expectReply("<|channel>final\nHi.", "", "<|channel>final\nHi.");
    expectReply("a <|chan", "", "a <|chan");
    expectReply("<|channel>tho", "", "<|channel>tho");
    expectReply("a <channel", "", "a <channel");
    expectReply("<|channel>thought\nHm.<chan", "Hm.<chan", "");
  });

  it("calls nobody in its thoughts, and thinks nothing in its calls", () => {
    expectReply(`${thought(`Is it ${call}?`)}No.`, `Is it ${call}?`, "No.");
    expectReply(`A.${thought(call)}B.`, call, "A.\n\nB.");
    const marks = "<|channel>thought\nx<channel|>";
    expectReply(`<|tool_call>call:f{x:<|"|>${marks}<|"|>}<tool_call|>B.`, "", "B.", [
      JSON.stringify({ x: marks }).replace(":", ": "),
    ]);
  });

  it("goes on where the prompt has opened thoughts", () => {
    expectReply("Hm.<channel|>Hi.", "Hm.", "Hi.", [], { thought: "\n", begun: null });
    expectReply(" more.<channel|>Hi.", " more.", "Hi.", [], { thought: "Hm,", begun: null });
    expectReply(`<channel|>${call}`, "", "", [given], { thought: "", begun: null });
  });

  it("says what has a form as it is", () => {
    const text = JSON.stringify([thought("x"), call, "<channel|>"]);
    const beginnings = ["<|tool_call>call:f"];
    for (const size of [1, 3, text.length]) {
      const read = streamed(thought("Hm.") + text, size, NOTHING, { ...syntax, isFormed: true, beginnings });
      expect(read).toEqual({ reasoning: "Hm.", content: text, toolCalls: [] });
    }
  });

  it("has marks that are tokens apart from the same texts", () => {
    const expectSigned = (text: string, reasoning: string, content: string, calls: string[] = []) => {
      const expected = { reasoning, content, toolCalls: calls.map((given) => ({ name: "f", arguments: given })) };
      // Where a mark is a token a sign is written, here "§".
      const signed = text.replaceAll("§", SIGN);
      expect(parseReply(signed, withSigns), text).toEqual(expected);
      for (const size of [1, 2, 3, 7])
        expect(streamed(signed, size, NOTHING, withSigns, false), text).toEqual(expected);
    };
    const marks = '<|channel>thought\n<channel|> <|tool_call>call:f{}<tool_call|> <|"|>';
    expectSigned(`§<|channel>thought\n${marks}§<channel|>${marks}`, marks, marks);
    const given = JSON.stringify({ x: marks }).replace(":", ": ");
    expectSigned(`§<|tool_call>call:f{x:§<|"|>${marks}§<|"|>}§<tool_call|>`, "", "", [given]);
    expectSigned('§<|tool_call>call:f{§<|"|>x§<|"|>:1,y:[a𐀀,§<|"|>𐀀§<|"|>]}', "", "", ['{"x": 1, "y": ["a𐀀", "𐀀"]}']);
    // No text of a call holds them.
    expectSigned('§<|tool_call>call:f{x:§<|"|>a}§<tool_call|>B.', "", '<|tool_call>call:f{x:<|"|>a}<tool_call|>B.');
    expectSigned(
      '§<|tool_call>call:f{x:§<|"|>a}§<|channel>thought\nHm.§<channel|>B.',
      "Hm.",
      '<|tool_call>call:f{x:<|"|>a}\n\nB.',
    );
    expectSigned("§<|tool_call>call:f{x:a§<|image|>}", "", "<|tool_call>call:f{x:a<|image|>}");
    expectSigned("Hi.§<|image|>§<channel|> Ho.", "", "Hi.<|image|> Ho.");
    const formed = { ...withSigns, isFormed: true, beginnings: ["<|tool_call>call:f"] };
    const text = JSON.stringify([marks]);
    expect(streamed(`${SIGN}<|channel>thought\nHm.${SIGN}<channel|>${text}`, 3, NOTHING, formed)).toEqual({
      ...{ reasoning: "Hm.", content: text, toolCalls: [] },
    });
    const called = `${SIGN}<|tool_call>call:f{x:1}${SIGN}<tool_call|>`;
    expect(streamed(called, 3, NOTHING, formed).toolCalls).toEqual([{ name: "f", arguments: '{"x": 1}' }]);
  });

  it("is read alike however it is cut, and nothing that is said is lost", () => {
    const marks = ["<|channel>thought", "<channel|>", "<|tool_call>", '<|"|>', "<tool_call|>"];
    const others = [
      "\n",
      "call:f{",
      "x:",
      "}",
      "[",
      "]",
      ",",
      "<",
      "|",
      '"',
      "1",
      " ",
      "a",
      "é😀",
      "{",
      ":",
      "\\",
      "null",
    ];
    const more = [SIGN, "call:g{}", '{"name": "f"', "<|channel>", "<|image|>", "𐀀"];
    const pieces = [...marks, ...marks.map((mark) => SIGN + mark), ...others, ...more];
    let state = 7;
    const random = (below: number) => {
      state = (state * 1103515245 + 12345) % 2 ** 31;
      return Math.floor((state / 2 ** 31) * below);
    };
    for (let round = 0; round < 6000; round++) {
      const how = round % 2 === 0 ? syntax : withSigns;
      const text = Array.from({ length: 1 + random(14) }, () => pieces[random(pieces.length)]).join("");
      const start = random(4) === 0 ? { thought: random(2) === 0 ? "" : "Hm", begun: null } : NOTHING;
      for (const asTheyCome of [true, false]) {
        const whole = streamed(text, text.length, start, how, asTheyCome);
        for (const size of [1, 2, 5]) expect(streamed(text, size, start, how, asTheyCome), text).toEqual(whole);
        if (asTheyCome) continue;
        for (const made of whole.toolCalls) expect(typeof JSON.parse(made.arguments), text).toBe("object");
        // Without calls every letter is said or thought.
        if (whole.toolCalls.length === 0) expect(letters(whole.reasoning + whole.content), text).toBe(letters(text));
      }
    }
  });
});

/** But for marks, signs and white space. */
const letters = (text: string) =>
  [...text.replace(/\ud800(?![\udc00-\udfff])/g, "").replace(/<\|channel>thought|<channel\|>|\s/g, "")].sort().join("");
