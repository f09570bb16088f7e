import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { stripVTControlCharacters } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Conversation } from "../../src/cli/chat/conversation.js";
import { converse } from "../../src/cli/chat/converse.js";
import { chat as chatCommand } from "../../src/cli/chat.js";
import { runCommand } from "../../src/cli/command.js";
import { UsageError } from "../../src/cli/flags.js";
import { Engine } from "../../src/index.js";
import { nodeArguments } from "./command.js";
import { printed } from "./printed.js";

let engine: Engine;
let folder: string;
beforeAll(async () => {
  engine = await Engine.open();
  await engine.models.create({ project: "demo", name: "parrot", base_model: "anneal/tiny" });
  folder = mkdtempSync(join(tmpdir(), "cli-chat-"));
});
afterAll(async () => {
  await engine.close();
  rmSync(folder, { recursive: true, force: true });
});

const CTRL_C = "\x03";
const CTRL_D = "\x04";
const paste = (text: string) => `\x1b[200~${text.replaceAll("\n", "\r")}\x1b[201~`;

/** A conversation at a terminal of this process: keys are sent when what they wait for has been shown. */
async function talk(steps: readonly [after: string | RegExp, keys: string][], changed: object = {}) {
  const settings = { temperature: 0, max_completion_tokens: 40, seed: 1, ...changed };
  const conversation = new Conversation(engine, null, null, settings);
  const input = new PassThrough();
  const output = new PassThrough();
  let shown = "";
  let at = 0;
  let from = 0;
  output.on("data", (chunk) => {
    shown += stripVTControlCharacters(String(chunk));
    for (let step = steps[at]; step; step = steps[at]) {
      const rest = shown.slice(from);
      const place = typeof step[0] === "string" ? rest.indexOf(step[0]) : rest.search(step[0]);
      if (place < 0) return;
      from = shown.length;
      at++;
      setImmediate(() => input.write(step[1]));
    }
  });
  await converse(conversation, input, output as unknown as NodeJS.WriteStream);
  return { shown, said: conversation.messages.map(({ role, content }) => `${role}: ${content}`), at };
}

describe("a conversation at a terminal", () => {
  it("answers, and keeps what is typed meanwhile: whole lines as messages, an unfinished one for its prompt", async () => {
    const { said, shown } = await talk([
      ["> ", "What is 3 + 4?\rWhat is 2 + 2?\rWhat is 1"],
      ["> What is 1", " + 1?\r"],
      [/> $/, CTRL_D],
    ]);
    expect(said.filter((line) => line.startsWith("user"))).toEqual([
      "user: What is 3 + 4?",
      "user: What is 2 + 2?",
      "user: What is 1 + 1?",
    ]);
    expect(said).toHaveLength(6);
    // The first reply stands whole between the two messages, though the second was typed before it.
    expect(shown).toContain(`${said[1]!.replace("assistant: ", "")}\n> What is 2 + 2?\n`);
  });

  it("takes a paste of several lines as one message, which Enter sends", async () => {
    const { said } = await talk([
      ["> ", paste("one\n\ttwo\n/help")],
      ["… /help", "!\r"],
      [/> $/, '"""\rthree\r"""\r'],
      [/> $/, CTRL_D],
    ]);
    expect(said.filter((line) => line.startsWith("user"))).toEqual(["user: one\n\ttwo\n/help!", "user: three"]);
  });

  it("stops a reply on Ctrl-C, drops a begun line on another, and leaves when it comes twice", async () => {
    const steps: Parameters<typeof talk>[0] = [
      ["> ", "What is 3 + 4?\r"],
      [/\n\w/, CTRL_C],
      [/stopped; Ctrl-C again leaves\)\n> $/, "never sent"],
      ["never sent", CTRL_C],
      [/> $/, "/reset\r"],
      [/new conversation\n> $/, CTRL_C],
      [/Ctrl-C again leaves\n> $/, CTRL_C],
    ];
    const { said, shown, at } = await talk(steps, { ignore_eos: true, max_completion_tokens: 1900 });
    expect(at).toBe(7);
    expect(said).toEqual([]);
    expect(shown).not.toContain("cut off");
  });

  it("keeps slash commands to itself, also those that there are not", async () => {
    const file = join(folder, "said.jsonl");
    const { said, shown } = await talk([
      ["> ", "/hlep\r"],
      ["did you mean /help?", "/help\r"],
      [/\/save \[FILE\][\s\S]*> $/, "/system You are brief.\r"],
      [/brief\.\n> $/, "/model demo/parrot\r"],
      ["talking with local/demo/parrot", "/model nobody\r"],
      ['there is no model "nobody" here; there is anneal/tiny, local/demo/parrot', "/etc/hosts is a file\r"],
      [/\w+[\s\S]*\n> $/, `/save ${file}\r`],
      ["appended to", `/save ${join(folder, "said.txt")}\r`],
      ["name a .jsonl file", `/save ${join(folder, "nowhere", "said.jsonl")}\r`],
      ["nowhere/said.jsonl cannot be written (ENOENT: no such file or directory)", "/SYSTEM\r"],
      [/brief\.\n> $/, " /exit\r"],
      [/\w+[\s\S]*\n> $/, "/exit\r"],
    ]);
    expect(shown).toContain("there is no /hlep; did you mean /help?");
    expect(said.filter((line) => !line.startsWith("assistant"))).toEqual([
      "system: You are brief.",
      "user: /etc/hosts is a file",
      "user:  /exit",
    ]);
    const { messages } = JSON.parse(readFileSync(file, "utf8")) as { messages: { role: string }[] };
    expect(messages.map(({ role }) => role)).toEqual(["system", "user", "assistant"]);
  });

  it("starts anew on /reset, and goes on after an error", async () => {
    const { said, shown } = await talk([
      ["> ", "What is 3 + 4?\r"],
      [/\w+[\s\S]*\n> $/, "/reset\r"],
      ["a new conversation", `${"word ".repeat(3000)}\r`],
      [/2048[\s\S]*> $/, "What is 2 + 2?\r"],
      [/\w+[\s\S]*\n> $/, CTRL_D],
    ]);
    expect(said.map((line) => line.split(":")[0])).toEqual(["user", "assistant"]);
    expect(said[0]).toBe("user: What is 2 + 2?");
    expect(shown).toContain("2048");
  });
});

describe("a message on the command line", () => {
  const chat = (...args: string[]) => printed(() => runCommand(chatCommand, [...args, "--max-tokens", "4"]));

  it("may name its model first, as PROJECT/NAME or with a step", async () => {
    const home = join(folder, "home");
    await using kept = await Engine.open({ home });
    await kept.models.create({ project: "demo", name: "parrot", base_model: "anneal/tiny" });
    for (const name of ["demo/parrot", "local/demo/parrot", "demo/parrot:step0", "demo/parrot@0", "anneal/tiny"]) {
      expect(await chat(name, "Hello.", "--home", home)).toMatchObject({ code: 0 });
    }
    const unknown = chat("demo/parot", "Hello.", "--home", home);
    await expect(unknown).rejects.toThrow(
      'there is no model "demo/parot" here; there is anneal/tiny, local/demo/parrot',
    );
    await expect(unknown).rejects.toMatchObject({ constructor: UsageError, hint: expect.stringContaining("--use") });
    await expect(chat("demo/parrot:step7", "Hello.", "--home", home)).rejects.toThrow("has no step 7");
  });

  it("takes any whole number as its seed", async () => {
    expect(await chat("Hello.", "--seed=-5")).toMatchObject({ code: 0 });
    await expect(chat("Hello.", "--seed", "1.5")).rejects.toThrow('--seed takes a number that is whole, not "1.5"');
  });

  it("is one where no model is named", async () => {
    for (const words of [["3/4"], ["./a/b"], ["Is it a/b?"], ["--use", "anneal/tiny", "TCP/IP"]]) {
      expect(await chat(...words)).toMatchObject({ code: 0 });
    }
  });
});

// util-linux's `script` runs a command at a terminal of its own.
const hasScript = spawnSync("script", ["--version"], { encoding: "utf8" }).stdout?.includes("util-linux") ?? false;

it.runIf(hasScript)("greets at a real terminal, talks and leaves, with colours", { timeout: 60_000 }, async () => {
  const command = nodeArguments(["chat", "--max-tokens", "8", "--temperature", "0"])
    .map((word) => `'${word}'`)
    .join(" ");
  const terminal = spawn("script", ["-qec", `'${process.execPath}' ${command}`, "/dev/null"], {
    // What says elsewhere whether colours show, a CI's mark too, is taken from the environment.
    env: { PATH: process.env.PATH, TERM: "xterm-256color", HOME: folder },
  });
  let shown = "";
  const seen = async (text: string) => {
    while (!shown.includes(text)) await new Promise((resolve) => terminal.stdout.once("data", resolve));
  };
  terminal.stdout.on("data", (chunk) => {
    shown += chunk;
  });
  const ended = new Promise<number | null>((resolve) => terminal.on("close", resolve));
  await seen("> ");
  terminal.stdin.write("/model\r");
  await seen("* anneal/tiny");
  terminal.stdin.write("Hello\r/exit\r");
  expect(await ended).toBe(0);
  expect(shown).toContain("\x1b[1manneal ");
  expect(shown).toContain("/help says what can be done here");
  expect(stripVTControlCharacters(shown)).toContain("> Hello");
});
