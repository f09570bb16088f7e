// How models write tool calls: one entry per format, with all that the rest of the engine asks about it.

import { GEMMA4_QUOTE } from "../../gemma4Quote.js";
import type { ToolFormat } from "../../toolFormats.js";
import { GEMMA4_ENDS } from "../gemma4.js";
import { HARMONY_MARKS, HARMONY_TEXTS, HarmonyParser, isHarmony } from "../harmony.js";
import type { CallReader } from "./callReader.js";
import { GEMMA4_CALL, Gemma4CallReader } from "./gemma4CallReader.js";
import { JsonCallReader } from "./jsonCallReader.js";
import { LlamaToolParser, PYTHON_TAG } from "./llamaToolParser.js";
import { type MarkedCalls, MarkedToolParser } from "./markedToolParser.js";
import { NamedCallReader } from "./namedCallReader.js";
import { PythonCallReader } from "./pythonCallReader.js";
import type { OfferedTools, ToolParser } from "./toolCallCollector.js";
import { FUNCTION, XmlCallReader } from "./xmlCallReader.js";

/** What the text of calls is made of where calls must be made: `open`, calls with `between` two of them, `close`; null: one call. */
export interface CallTexts {
  open: string;
  /** What stands before a call's arguments. */
  head(name: string): string;
  /** How arguments are written: a style of structural tags. */
  style: "json_arguments" | "qwen_xml" | "python" | "gemma4";
  tail: string;
  between: string | null;
  close: string;
}

export interface ToolSyntax {
  /** Whether a template teaches its model this format; the first that says so is taken. */
  isTaughtBy(templateSource: string): boolean;
  /** Texts that are special tokens in many vocabularies, which a reply would leave out. */
  marks: readonly string[];
  /** The token that ends a reply with a call, where that is another one than elsewhere. */
  end?: string;
  /** What the template writes, where it has a choice. */
  texts(templateSource: string): CallTexts;
  /** `sign`: as of `createToolParser`. */
  parser(asTheyCome: boolean, offered: OfferedTools | null, sign?: string): ToolParser;
  /** Where each part of an answer says whether it is a call: reads one whose text has a form, whatever that holds. */
  callsOrTextParser?(asTheyCome: boolean, offered: OfferedTools | null): ToolParser;
}

const [GEMMA4_CALL_OPEN, GEMMA4_CALL_CLOSE] = ["<|tool_call>", "<tool_call|>"] as const;

const gemma4Calls = (sign: string): MarkedCalls => ({
  ...{ opens: [sign + GEMMA4_CALL_OPEN], closes: [sign + GEMMA4_CALL_CLOSE], lists: false, lines: true },
  reader: (_, first) => (first === "{" ? new JsonCallReader() : new Gemma4CallReader(sign)),
});

const quotedName = (name: string): string => JSON.stringify(name).slice(1, -1);

const json = (key: "arguments" | "parameters") => ({
  head: (name: string) => `{"name": "${quotedName(name)}", "${key}": `,
  style: "json_arguments" as const,
  tail: "}",
});

/** Calls as JSON objects in a list. */
const jsonList = (open: string, close = "") => ({
  ...json("arguments"),
  ...{ open: `${open}[`, between: ", ", close: `]${close}` },
});

function marked(calls: MarkedCalls, more: readonly string[] = []): Pick<ToolSyntax, "marks" | "parser"> {
  return {
    marks: [...calls.opens, ...calls.closes, ...more],
    parser: (asTheyCome, offered) => new MarkedToolParser(calls, asTheyCome, offered),
  };
}

const jsonReader = (): CallReader => new JsonCallReader();

/** A new one is named in ../../toolFormats.ts, before those whose marks its template shows as well. */
export const TOOL_SYNTAX: Readonly<Record<ToolFormat, ToolSyntax>> = {
  /** `<|channel|>commentary to=functions.name <|constrain|>json<|message|>{...}<|call|>`: gpt-oss. */
  harmony: {
    isTaughtBy: isHarmony,
    marks: HARMONY_MARKS,
    end: HARMONY_TEXTS.callEnd,
    // As a call ends the reply, it has one.
    texts: () => ({
      ...{ open: "", head: HARMONY_TEXTS.call, style: "json_arguments", tail: "", between: null, close: "" },
    }),
    parser: (asTheyCome, offered) => new HarmonyParser({ asTheyCome, offered }),
    callsOrTextParser: (asTheyCome, offered) => new HarmonyParser({ asTheyCome, offered, isFormed: true }),
  },

  /** `<|tool_call>call:name{key:<|"|>text<|"|>,n:1}<tool_call|>`, any number: Gemma 4. */
  gemma4: {
    isTaughtBy: (source) => source.includes(GEMMA4_CALL_OPEN),
    marks: [GEMMA4_CALL_OPEN, GEMMA4_CALL_CLOSE, GEMMA4_QUOTE],
    parser: (asTheyCome, offered, sign = "") => new MarkedToolParser(gemma4Calls(sign), asTheyCome, offered),
    // What the tool answers follows in the same turn.
    end: GEMMA4_ENDS[1],
    texts: () => ({
      ...{
        open: "",
        head: (name) => `${GEMMA4_CALL_OPEN}${GEMMA4_CALL}${name}`,
        style: "gemma4",
        tail: GEMMA4_CALL_CLOSE,
      },
      ...{ between: "", close: "" },
    }),
  },

  /** `<tool_call><function=name><parameter=key>value</parameter></function></tool_call>`: Qwen3.5, Qwen3-Coder. */
  qwen3_coder: {
    isTaughtBy: (source) =>
      source.includes("<tool_call>") && source.includes(FUNCTION) && source.includes("<parameter="),
    ...marked({
      opens: ["<tool_call>", FUNCTION],
      closes: ["</tool_call>"],
      lists: false,
      reader: (open, first, offered) =>
        first === "{" ? new JsonCallReader() : new XmlCallReader(offered, open === FUNCTION),
    }),
    texts: () => ({
      ...{ open: "", head: (name) => `<tool_call>\n<function=${name}>\n`, style: "qwen_xml", close: "" },
      ...{ tail: "</function>\n</tool_call>", between: "\n" },
    }),
  },

  /** `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, any number: Qwen2.5, Qwen3, Hermes, SmolLM3, Granite 4. */
  hermes: {
    // Other families put other notations into the same tag.
    isTaughtBy: (source) =>
      source.includes("<tool_call>") &&
      source.includes("arguments") &&
      !["<|tool_call|>", FUNCTION, "<arg_key>", "<invoke"].some((other) => source.includes(other)),
    ...marked({ opens: ["<tool_call>"], closes: ["</tool_call>"], lists: false, reader: jsonReader }),
    texts: () => ({
      ...json("arguments"),
      head: (name) => `<tool_call>\n${json("arguments").head(name)}`,
      ...{ open: "", tail: "}\n</tool_call>", between: "\n", close: "" },
    }),
  },

  /** `<|tool_call|>[{"name": ..., "arguments": {...}}, ...]`: Granite 3. */
  granite: {
    isTaughtBy: (source) => source.includes("<|tool_call|>") && source.includes("<|start_of_role|>"),
    ...marked({ opens: ["<|tool_call|>", "<tool_call>"], closes: ["</tool_call>"], lists: true, reader: jsonReader }),
    texts: () => jsonList("<|tool_call|>"),
  },

  /** `[TOOL_CALLS]name[ARGS]{...}`, any number, or `[TOOL_CALLS] [{"name": ..., "arguments": {...}}, ...]`: Mistral, Ministral. */
  mistral: {
    isTaughtBy: (source) => source.includes("[TOOL_CALLS]"),
    ...marked(
      {
        ...{ opens: ["[TOOL_CALLS]"], closes: [], lists: true },
        reader: (_, first) => (first === "{" ? new JsonCallReader() : new NamedCallReader()),
      },
      ["[ARGS]", "[CALL_ID]"],
    ),
    texts: (source) =>
      source.includes("[ARGS]")
        ? {
            ...{ open: "", head: (name) => `[TOOL_CALLS]${name}[ARGS]`, style: "json_arguments", tail: "" },
            ...{ between: "", close: "" },
          }
        : jsonList("[TOOL_CALLS] "),
  },

  /** `<|tool_call|>[{"name": ..., "arguments": {...}}]<|/tool_call|>` or `functools[...]`: Phi-4-mini. */
  phi4: {
    isTaughtBy: (source) =>
      source.includes("functools[") || source.includes("<|/tool|>") || source.includes("<|/tool_call|>"),
    ...marked({
      ...{ opens: ["<|tool_call|>", "functools"], closes: ["<|/tool_call|>"], lists: true },
      reader: jsonReader,
    }),
    texts: (source) =>
      source.includes("functools[") ? jsonList("functools") : jsonList("<|tool_call|>", "<|/tool_call|>"),
  },

  /** `<|tool_call_start|>[name(key=value), ...]<|tool_call_end|>`: LFM2, of whose templates many tell of the tools alone. */
  lfm2: {
    isTaughtBy: (source) =>
      ["<|tool_call_start|>", "<|tool_list_start|>", "List of tools: ["].some((taught) => source.includes(taught)),
    ...marked({
      ...{ opens: ["<|tool_call_start|>"], closes: ["<|tool_call_end|>"], lists: true },
      // Asked to, it writes JSON.
      reader: (_, first) => (first === "{" ? new JsonCallReader() : new PythonCallReader()),
    }),
    texts: () => ({
      ...{ open: "<|tool_call_start|>[", head: (name) => `${name}(`, style: "python", tail: ")", between: ", " },
      close: "]<|tool_call_end|>",
    }),
  },

  /** The answer is `[name(key=value), ...]`, or holds calls between "```tool_code" and "```": Gemma 3, Llama 4. */
  pythonic: {
    isTaughtBy: (source) =>
      ["[func_name1(", "```tool_code"].some((taught) => source.includes(taught)) ||
      (source.includes("<start_of_turn>") && !source.includes("tool_calls")),
    ...marked({
      ...{ opens: ["```tool_code", "<code>"], closes: ["```", "</code>"], lists: true, bareList: true, lines: true },
      reader: () => new PythonCallReader(),
    }),
    texts: () => ({
      ...{ open: "[", head: (name) => `${name}(`, style: "python", tail: ")", between: ", ", close: "]" },
    }),
  },

  /** The answer is `{"name": ..., "parameters": {...}}`, perhaps after `<|python_tag|>`, several with `;`: Llama 3. */
  llama3: {
    isTaughtBy: (source) =>
      (source.includes("<|start_header_id|>") || source.includes(PYTHON_TAG)) &&
      source.includes("tool_calls") &&
      source.includes("parameters"),
    marks: [PYTHON_TAG],
    texts: () => ({ ...json("parameters"), open: "", between: "; ", close: "" }),
    parser: (asTheyCome, offered) => new LlamaToolParser(asTheyCome, offered),
  },
};
