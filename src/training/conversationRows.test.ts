import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { removeBigramModels, writeBigramModel } from "../../test/conformance/bigramModel.js";
import { ChatTemplate, loadTokenizer, type Tokenizer } from "../text/index.js";
import type { TrainingMessage } from "../types/training.js";
import type { MessageOrChoice, TrajectoryChoice, TrajectoryMessage } from "../types/trajectories.js";
import { conversationRows } from "./conversationRows.js";
import { createPromptRenderer } from "./promptRenderer.js";
import type { TokenRow } from "./tokenRow.js";
import { tokenizeTrajectory } from "./trajectoryRows.js";

const reference = (path: string) => fileURLToPath(new URL(`../../test/reference/${path}`, import.meta.url));
let tokenizer: Tokenizer;
beforeAll(async () => {
  tokenizer = await loadTokenizer(reference("tokenizers/qwen"));
});

const withSource = (source: string, own = tokenizer, ends = [902]) =>
  createPromptRenderer(
    {
      id: "base",
      tokenizer: own,
      template: new ChatTemplate(source),
      generationConfig: { eos_token_id: ends },
      device: { config: { vocab: own.vocabSize } },
    },
    new Date(2026, 0, 2),
  );
const renderer = (template: string) => withSource(readFileSync(reference(`templates/${template}.jinja`), "utf8"));

const START = 901;
const END = 902;
const text = (content: string) => tokenizer.encode(content);
const header = (role: string) => [START, ...text(`${role}\n`)];
const turn = (role: string, content: string) => [...header(role), ...text(content), END, ...text("\n")];

/** The row with what is trained in brackets. */
function shown({ tokens, trained }: TokenRow): string {
  let result = "";
  for (const [i, id] of tokens.entries()) {
    if (trained[i] && !trained[i - 1]) result += "[";
    if (!trained[i] && trained[i - 1]) result += "]";
    result += tokenizer.tokenText(id);
  }
  return trained.at(-1) ? `${result}]` : result;
}

const user = (content: string): TrajectoryMessage => ({ role: "user", content });
const assistant = (content: string): TrajectoryMessage => ({ role: "assistant", content });

/** The rows of a conversation of any length. */
async function supervised(
  ...given: Parameters<typeof conversationRows> extends [...infer Most, number, AbortSignal?] ? Most : never
) {
  return (await conversationRows(...given, Number.POSITIVE_INFINITY))!;
}

describe("supervised rows", () => {
  it("of long conversations are rendered and encoded while the event loop does other things", async () => {
    const messages = Array.from({ length: 40 }, (_, i) => (i % 2 ? assistant : user)("some words ".repeat(8_000)));
    await conversationRows([user("x".repeat(50_000)), assistant("y")], null, renderer("chatml"), "last", 1e9);
    const before = performance.eventLoopUtilization();
    const row = (await conversationRows(messages, null, renderer("chatml"), "last", 1e9))!;
    expect(performance.eventLoopUtilization(before).utilization).toBeLessThan(0.5);
    expect(row[0]!.tokens.length).toBeGreaterThan(1e6);
  });

  it("may be of any length", async () => {
    const [row] = await supervised([user("x"), assistant("1 ".repeat(200_000))], null, renderer("chatml"), "all");
    expect(row!.tokens.length).toBeGreaterThan(200_000);
  });

  it("take an assistant's turn of weight 0 as context, in the place it has in later prompts", async () => {
    const chatml = renderer("chatml");
    const all = [user("a"), assistant("b"), user("c"), assistant("d")];
    const weighed = (...weights: (0 | 1 | null | undefined)[]) =>
      supervised(
        all.map((message, i) => (i % 2 ? { ...message, weight: weights[(i - 1) / 2] } : message)),
        null,
        chatml,
        "all",
      );
    const [whole] = await supervised(all, null, chatml, "all");
    const [second] = await weighed(0, 1);
    expect(second!.tokens).toEqual(whole!.tokens);
    expect(shown(second!)).toBe(shown(whole!).replace(/\[(b[^\]]*)\]/, "$1"));
    expect(shown(second!)).toContain("[d");
    const [first, ...rest] = await weighed(1, 0);
    expect([rest, shown(first!)]).toEqual([[], shown((await supervised(all.slice(0, 2), null, chatml, "all"))[0]!)]);
    expect(await weighed(null, undefined)).toEqual([whole]);
    expect(await weighed(0, 0)).toEqual([]);
    const last = [...all.slice(0, 3), { ...all[3]!, weight: 0 as const }];
    expect(await supervised(last, null, chatml, "last")).toEqual([]);
  });

  /** Rows of a template whose replies end with the first two special tokens, with brackets around what is trained. */
  async function bracketed(name: string, own: Tokenizer, messages: TrainingMessage[], turns: "all" | "last") {
    const source = readFileSync(reference(`templates/${name}.jinja`), "utf8");
    const rows = await supervised(messages, null, withSource(source, own, [256, 257]), turns);
    return rows.map(({ tokens, trained }) => {
      const pieces = Array.from(tokens, (id, i) => {
        const open = trained[i] && !trained[i - 1] ? "[" : !trained[i] && trained[i - 1] ? "]" : "";
        return open + own.tokenText(id);
      });
      return (pieces.join("") + (trained.at(-1) ? "]" : "")).replace(/Ġ/g, " ").replace(/Ċ/g, "\n");
    });
  }

  describe("of Gemma 4", () => {
    const marks = [
      "<turn|>",
      "<|tool_response>",
      "<|turn>",
      "<|channel>",
      "<channel|>",
      "<|tool_call>",
      "<tool_call|>",
    ];
    let own: Tokenizer;
    beforeAll(async () => {
      const specials = [...marks, "<tool_response|>", '<|"|>'];
      const { path } = await writeBigramModel({ specials, pieces: [], scripts: [], template: null });
      own = await loadTokenizer(path);
    });
    afterAll(removeBigramModels);

    it("have calls, what their tools answered and what follows in one turn", async () => {
      const call = { id: "a", type: "function" as const, function: { name: "add", arguments: '{"a": 1}' } };
      const messages: TrainingMessage[] = [
        user("a"),
        { role: "assistant", content: "I ask.", tool_calls: [call], reasoning: "Hm." },
        { role: "tool", tool_call_id: "a", content: "1" },
        { ...assistant("b"), reasoning: "So." },
      ];
      const asked = "<|turn>user\na<turn|>\n<|turn>model\n";
      const called = "<|channel>thought\nHm.\n<channel|>I ask.<|tool_call>call:add{a:1}<tool_call|><|tool_response>";
      const result = 'response:add{value:<|"|>1<|"|>}<tool_response|>';
      const answer = "[<|channel>thought\nSo.\n<channel|>b<turn|>]\n";
      expect(await bracketed("gemma4", own, messages, "all")).toEqual([`${asked}[${called}]${result}${answer}`]);
      const last = `${asked}${called}${result}${answer.replace("]\n", "\n]")}`;
      expect(await bracketed("gemma4", own, messages, "last")).toEqual([last]);
    });
  });

  describe("of gpt-oss", () => {
    const marks = ["<|return|>", "<|call|>", "<|end|>", "<|start|>", "<|channel|>", "<|constrain|>", "<|message|>"];
    let own: Tokenizer;
    beforeAll(async () => {
      const { path } = await writeBigramModel({ specials: marks, pieces: [], scripts: [], template: null });
      own = await loadTokenizer(path);
    });
    afterAll(removeBigramModels);

    const rowsOf = async (messages: TrainingMessage[], turns: "all" | "last" = "all") => {
      const rows = await bracketed("harmony", own, messages, turns);
      return rows.map((text) => text.slice(text.indexOf("<|start|>user")));
    };
    const call = { id: "a", type: "function" as const, function: { name: "add", arguments: '{"a": 1}' } };
    const question = "<|start|>user<|message|>a<|end|><|start|>assistant";
    const called =
      '[<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant to=functions.add<|channel|>commentary json<|message|>{"a": 1}<|call|>]';
    const result = '<|start|>functions.add to=assistant<|channel|>commentary<|message|>"1"<|end|><|start|>assistant';
    const answer = "[<|channel|>analysis<|message|>So.<|end|><|start|>assistant<|channel|>final<|message|>b<|return|>]";

    it("end with the tokens that end replies, and have thoughts before calls as long as prompts have", async () => {
      const messages = (named: (thought: string) => object): TrainingMessage[] => [
        user("a"),
        { role: "assistant", content: null, tool_calls: [call], ...named("Hm.") },
        { role: "tool", tool_call_id: "a", content: "1" },
        { ...assistant("b"), ...named("So.") },
      ];
      const whole = question + called + result + answer;
      for (const name of ["reasoning", "reasoning_content", "thinking"]) {
        expect(await rowsOf(messages((thought) => ({ [name]: thought })))).toEqual([whole]);
      }
      const asked = messages((thought) => ({ reasoning: thought }));
      expect(await rowsOf(asked, "last")).toEqual([whole.replace(/\[(.*?)\]/, "$1")]);
      const first = { ...asked[1]!, content: "I ask.", reasoning: null };
      expect(await rowsOf([asked[0]!, first, ...asked.slice(2)])).toEqual([whole.replace("Hm.", "I ask.")]);
    });

    it("of several calls are one for each, behind what the calls before it were answered", async () => {
      const second = { id: "b", type: "function" as const, function: { name: "sub", arguments: '{"b": 2}' } };
      const both = { role: "assistant" as const, content: null, reasoning: "Hm.", tool_calls: [call, second] };
      const answers = ["b", "a"].map((id) => ({ role: "tool" as const, tool_call_id: id, content: "1" }));
      const conversation: TrainingMessage[] = [user("a"), both, ...answers, { ...assistant("b"), reasoning: "So." }];
      const calledToo = '[ to=functions.sub<|channel|>commentary json<|message|>{"b": 2}<|call|>]';
      const whole = question + called + result + calledToo + result.replace("add", "sub") + answer;
      expect(await rowsOf(conversation)).toEqual([whole]);
      const [untrained] = await rowsOf(
        conversation.map((message) => (message === both ? { ...both, weight: 0 } : message)),
      );
      expect(untrained).toBe(whole.replace(/\[(.*?)\]/, "$1").replace(/\[(.*?)\]/, "$1"));
      expect(await rowsOf(conversation.slice(0, 2))).toEqual([`${question}${called}<|start|>assistant${calledToo}`]);
    });

    it("have answers behind their header, where only their text was kept", async () => {
      const source = readFileSync(reference("templates/harmony.jinja"), "utf8");
      const trajectory = { messages_and_choices: [user("a"), assistant("b")], reward: 1 };
      const settings = { allowWithoutLogprobs: true };
      const { rows } = await tokenizeTrajectory(trajectory as never, withSource(source, own), settings);
      expect(own.decode(rows[0]!.tokens, { skipSpecialTokens: false })).toMatch(
        /<\|start\|>assistant<\|channel\|>final<\|message\|>b$/,
      );
    });

    it("start anew where an answer loses its thoughts", async () => {
      const said = { ...assistant("b"), reasoning: "So." };
      const rows = await rowsOf([user("a"), said, user("a"), said]);
      const past = "<|start|>assistant<|channel|>final<|message|>b<|end|>";
      expect(rows).toEqual([question + answer, question.replace("<|start|>assistant", past) + question + answer]);
    });
  });

  it("are not rendered further once one is too long", async () => {
    const turns = Array.from({ length: 40 }, () => [user("Hi"), assistant("Hello")]).flat();
    const { text, ...others } = renderer("chatml");
    let rendered = 0;
    const counting = {
      ...others,
      text: (...given: Parameters<typeof text>) => {
        rendered += 1;
        return text(...given);
      },
    };
    expect(await conversationRows(turns, null, counting, "all", 30)).toBeNull();
    expect(rendered).toBeLessThan(20);
  });

  it("train what the assistant says and its end of turn, nothing else", async () => {
    const rows = await supervised(
      [{ role: "system", content: "Be brief." }, user("Hi"), assistant("Hello"), user("Bye"), assistant("See you")],
      null,
      renderer("chatml"),
      "all",
    );
    expect(rows.map(shown)).toEqual([
      "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n[Hello<|im_end|>]\n" +
        "<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n[See you<|im_end|>]\n",
    ]);
    expect([...rows[0]!.tokens]).toEqual([
      ...turn("system", "Be brief."),
      ...turn("user", "Hi"),
      ...turn("assistant", "Hello"),
      ...turn("user", "Bye"),
      ...turn("assistant", "See you"),
    ]);
  });

  it("train a conversation that the assistant begins, whatever the template puts before it", async () => {
    const rows = await supervised(
      [assistant("Welcome"), user("Bye"), assistant("See you")],
      null,
      renderer("chatml"),
      "all",
    );
    expect(rows.map(shown)).toEqual([
      "<|im_start|>assistant\n[Welcome<|im_end|>]\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n[See you<|im_end|>]\n",
    ]);
    const withSystem = `{% if messages[0].role != 'system' %}<|im_start|>system\nBe kind.<|im_end|>\n{% endif %}
{%- for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant\n{% endif %}`;
    expect((await supervised([assistant("Welcome")], null, withSource(withSystem), "all")).map(shown)).toEqual([
      "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>assistant\n[Welcome<|im_end|>]\n",
    ]);
    const thinking = `{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant\n<think>\n\n</think>\n\n{% endif %}`;
    expect((await supervised([assistant("Welcome")], null, withSource(thinking), "all")).map(shown)).toEqual([
      "<|im_start|>assistant\n[Welcome<|im_end|>]\n",
    ]);
    const headless = withSource("{% for m in messages %}{{ m.content }}{% endfor %}");
    await expect(supervised([assistant("Welcome")], null, headless, "all")).rejects.toThrow(
      /cannot begin a conversation/,
    );
  });

  it("train nothing after the token that ends a turn, where the template ends what it renders with another", async () => {
    const ending = `{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant\n{% else %}<|im_end|>{% endif %}`;
    const rows = await supervised([user("Hi"), assistant("Hello")], null, withSource(ending), "all");
    expect(rows.map(shown)).toEqual([
      "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n[Hello<|im_end|>]\n<|im_end|>",
    ]);
  });

  it("follow the prompt that was served where the template tells the system's message in the last user's turn only", async () => {
    const rows = await supervised(
      [{ role: "system", content: "Be brief." }, user("Hi"), assistant("Hello"), user("Bye"), assistant("See you")],
      null,
      renderer("mistral_strict"),
      "all",
    );
    const end = tokenizer.specialTokens.eos_token;
    expect(rows.map(shown)).toEqual([
      `[INST] Be brief.\n\nHi[/INST][ Hello${end}]`,
      `[INST] Hi[/INST] Hello${end}[INST] Be brief.\n\nBye[/INST][ See you${end}]`,
    ]);
  });

  it("never train what a tool answered, in templates that render it as a user's turn", async () => {
    const calls = [{ id: "1", type: "function" as const, function: { name: "add", arguments: '{"a": 1}' } }];
    const rows = await supervised(
      [
        user("1?"),
        { role: "assistant", content: "", tool_calls: calls },
        { role: "tool", tool_call_id: "1", content: "7" },
        assistant("7."),
      ],
      [{ type: "function", function: { name: "add" } }],
      renderer("qwen_thinking"),
      "all",
    );
    const trained = rows
      .map(shown)
      .join("")
      .match(/\[[^[\]]*\]/g);
    expect(trained).toEqual([
      '[<think>\n\n</think>\n\n<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call><|im_end|>]',
      "[<think>\n\n</think>\n\n7.<|im_end|>]",
    ]);
  });

  it("show a template that a turn which only calls tools has no content", async () => {
    const source = `{% for m in messages %}{% if m.role == 'assistant' and m.content is none %}
{%- for call in m.tool_calls %}{{ call.function.name }}{% endfor %}<|im_end|>{% else %}{{ m.content }}<|im_end|>{% endif %}{% endfor %}`;
    const call = { id: "1", type: "function" as const, function: { name: "add", arguments: "{}" } };
    const messages = [user("a"), { role: "assistant" as const, content: null, tool_calls: [call] }];
    const { content, ...absent } = messages[1]!;
    for (const last of [messages[1]!, absent as TrajectoryMessage]) {
      const rows = await supervised([user("a"), last], null, withSource(source), "all");
      expect(rows.map(shown)).toEqual(["a<|im_end|>[add<|im_end|>]"]);
    }
    const said = { ...messages[1]!, content: "b" };
    const rows = await supervised([user("a"), said], null, withSource(source), "all");
    expect(rows.map(shown)).toEqual(["a<|im_end|>[b<|im_end|>]"]);
  });

  it("train thoughts that a message carries beside its content", async () => {
    const thinking: TrainingMessage = { role: "assistant", content: "b", reasoning: "hm" };
    const { reasoning: reasoning_content, ...other } = thinking;
    for (const message of [thinking, { ...other, reasoning_content }]) {
      const [row] = await supervised([user("a"), message], null, renderer("qwen_thinking"), "all");
      expect(shown(row!)).toContain("[<think>\nhm\n</think>\n\nb<|im_end|>]");
    }
  });

  it("train a turn's first mark whole where prompts open thoughts that the turn has not", async () => {
    const thinking = `{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant\n{{ open }}{% endif %}`;
    const rowsOf = async (open: string, said: string) =>
      (await supervised([user("a"), assistant(said)], null, withSource(thinking.replace("{{ open }}", open)), "all"))
        .map(shown)
        .map((whole) => whole.slice(whole.indexOf("assistant\n") + "assistant\n".length));
    expect(await rowsOf("<think>\n", "<tool_call>\n1")).toEqual(["[<tool_call>\n1<|im_end|>]\n"]);
    expect(await rowsOf("<think>\n", "<b>1</b>")).toEqual(["[<b>1</b><|im_end|>]\n"]);
    expect(await rowsOf("[THINK]", "[TOOL]1")).toEqual(["[[TOOL]1<|im_end|>]\n"]);
    expect(await rowsOf("<think>\n", "<think>hm</think>1")).toEqual(["<think>[hm</think>1<|im_end|>]\n"]);
    expect(await rowsOf("<think>\n", "1")).toEqual(["[1<|im_end|>]\n"]);
  });

  it("start a row where the template takes the thoughts out of earlier turns", async () => {
    const rows = await supervised(
      [user("a"), assistant("<think>\nhm\n</think>\n\nb"), user("c"), assistant("d")],
      null,
      renderer("qwen_thinking"),
      "all",
    );
    expect(rows.map(shown)).toEqual([
      "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n[<think>\nhm\n</think>\n\nb<|im_end|>]\n",
      "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n<|im_start|>user\nc<|im_end|>\n" +
        "<|im_start|>assistant\n[<think>\n\n</think>\n\nd<|im_end|>]\n",
    ]);
  });

  it("have the ids of the whole text where the tokenizer puts a space before every text", async () => {
    const llama = await loadTokenizer(reference("tokenizers/llama2"));
    const source = `{{ bos_token }}{% for m in messages %}
{%- if m.role == 'user' %}[INST] {{ m.content }} [/INST]{% else %} {{ m.content }}{{ eos_token }}{% endif %}{% endfor %}`;
    const messages = [user("Hi"), assistant("Hello"), user("Bye"), assistant("See you")];
    const whole = "<s>[INST] Hi [/INST] Hello</s>[INST] Bye [/INST] See you</s>";
    for (const turns of ["all", "last"] as const) {
      const [row, ...more] = await supervised(messages, null, withSource(source, llama), turns);
      expect(more).toEqual([]);
      expect([...row!.tokens]).toEqual(llama.encode(whole));
      const trained = [...row!.tokens].filter((_, i) => row!.trained[i]).map((id) => llama.piece(id));
      expect(trained.join("")).toBe(turns === "all" ? "▁Hello</s>▁See▁you</s>" : "▁See▁you</s>");
    }
  });

  it("keep tokens of their own where one would reach over the prompt's end", async () => {
    const spaced = `{% for m in messages %}{{ m.role }}: {{ m.content }}<|im_end|>{% endfor %}
{%- if add_generation_prompt %}assistant: {% endif %}`;
    const [row] = await supervised([user("Hi"), assistant("Hello")], null, withSource(spaced), "all");
    expect(text("assistant: Hello").slice(0, text("assistant: ").length)).not.toEqual(text("assistant: "));
    expect(shown(row!)).toBe("user: Hi<|im_end|>assistant: [Hello<|im_end|>]");
    expect([...row!.tokens].slice(-text("Hello").length - 1)).toEqual([...text("Hello"), END]);
  });

  it("train all that follows the last prompt when only the last turn is asked for", async () => {
    const rows = await supervised(
      [user("a"), assistant("b"), user("c"), assistant("d")],
      null,
      renderer("chatml"),
      "last",
    );
    expect(rows.map(shown)).toEqual([
      "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n<|im_start|>user\nc<|im_end|>\n" +
        "<|im_start|>assistant\n[d<|im_end|>\n]",
    ]);
  });
});

describe("turns without recorded prompts", () => {
  function choice(content: string, ids: number[]): TrajectoryChoice {
    return {
      index: 0,
      finish_reason: "stop",
      message: { role: "assistant", content },
      logprobs: { content: ids.map((id) => ({ token: `token_id:${id}`, logprob: -0.5 })) },
    };
  }
  const rows = async (items: MessageOrChoice[], template = "chatml", allowWithoutLogprobs = false) => {
    const given = { messages_and_choices: items, reward: 1 };
    return (await tokenizeTrajectory(given, renderer(template), { allowWithoutLogprobs })).rows;
  };

  it("get the very ids of the prompt that was served, and their own", async () => {
    const [row, ...more] = await rows([
      user("Hi"),
      choice("Hello", [...text("Hello"), END]),
      user("Bye"),
      choice("Ok", [...text("Ok"), END]),
    ]);
    expect(more).toEqual([]);
    expect([...row!.tokens]).toEqual([
      ...turn("user", "Hi"),
      ...turn("assistant", "Hello"),
      ...turn("user", "Bye"),
      ...header("assistant"),
      ...text("Ok"),
      END,
    ]);
    expect(shown(row!).match(/\[[^[\]]*\]/g)).toEqual(["[Hello<|im_end|>]", "[Ok<|im_end|>]"]);
    expect([...row!.logprobs].filter((logprob) => logprob === -0.5)).toHaveLength(
      text("Hello").length + text("Ok").length + 2,
    );
  });

  it("stand alone when what was sampled is not how the text is encoded", async () => {
    const letters = [..."Hello"].flatMap((letter) => text(letter));
    expect(letters).not.toEqual(text("Hello"));
    const found = await rows([
      user("Hi"),
      choice("Hello", [...letters, END]),
      user("Bye"),
      choice("Ok", [...text("Ok"), END]),
    ]);
    expect(found.map((row) => [...row.tokens])).toEqual([
      [...turn("user", "Hi"), ...header("assistant"), ...letters, END],
      [
        ...turn("user", "Hi"),
        ...turn("assistant", "Hello"),
        ...turn("user", "Bye"),
        ...header("assistant"),
        ...text("Ok"),
        END,
      ],
    ]);
  });

  it("see that a turn before which only called tools had no content, as the completion's prompt did", async () => {
    const source = "{% for m in messages %}{{ 'calls' if m.content is none else m.content }}{% endfor %}";
    const call = { id: "1", type: "function" as const, function: { name: "add", arguments: "{}" } };
    const first: TrajectoryChoice = {
      index: 0,
      finish_reason: "tool_calls",
      message: { role: "assistant", content: null, tool_calls: [call] },
    };
    const given = { messages_and_choices: [user("a"), first, choice("x", [END])], reward: 1 };
    const { rows } = await tokenizeTrajectory(given, withSource(source), { allowWithoutLogprobs: false });
    expect(rows.map(shown)).toEqual(["acalls[<|im_end|>]"]);
  });

  it("see the time at which they began", async () => {
    const dated = withSource("{{ strftime_now('%Y-%m-%d') }}{{ messages[0].content }}");
    const shownWith = async (start_time?: string) => {
      const given = { messages_and_choices: [user(" Hi"), choice("x", [END])], reward: 1, start_time };
      return shown((await tokenizeTrajectory(given, dated, { allowWithoutLogprobs: false })).rows[0]!);
    };
    expect(await shownWith("2025-06-07T12:00:00")).toBe("2025-06-07 Hi[<|im_end|>]");
    expect(await shownWith()).toBe("2026-01-02 Hi[<|im_end|>]");
  });

  it("train plain assistant messages only when that is allowed, without their end of turn", async () => {
    expect(await rows([user("Hi"), assistant("Hello")])).toEqual([]);
    const [row] = await rows([user("Hi"), assistant("Hello"), user("more")], "chatml", true);
    expect(shown(row!)).toBe("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n[Hello]");
    expect([...row!.logprobs].every(Number.isNaN)).toBe(true);
  });

  it("wrap tools that come bare, and leave wrapped ones alone", async () => {
    const bare = { name: "add", description: "adds", parameters: { type: "object", properties: {} } };
    const items = [user("Hi"), choice("x", [...text("x"), END])];
    const ids = async (tools: object[]) => {
      const given = { messages_and_choices: items, tools: tools as never, reward: 1 };
      const { rows } = await tokenizeTrajectory(given, renderer("qwen_thinking"), { allowWithoutLogprobs: false });
      return [...rows[0]!.tokens];
    };
    const wrapped = await ids([{ type: "function", function: bare }]);
    expect(await ids([bare])).toEqual(wrapped);
    expect(await ids([{ function: bare }])).toEqual(wrapped);
    expect(tokenizer.decode(wrapped)).toContain('{"type": "function", "function": {"name": "add"');
  });
});
