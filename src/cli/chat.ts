import { createInterface, type Interface } from "node:readline";
import type { ChatMessage } from "../types/chat.js";
import type { AnnealClient } from "../types/client.js";
import { defineCommand } from "./command.js";
import { engineFlags, readEngineOptions } from "./engineFlags.js";
import { integer, number, text, UsageError, type Values } from "./flags.js";
import { openEngine, openExistingHome } from "./openHome.js";
import { printable } from "./printable.js";

const flags = {
  use: text("NAME", "the model to talk with, such as local/project/name:step3 (default: the first base model)"),
  system: text("TEXT", "what the model is told first"),
  temperature: number("T", "0 is greedy"),
  "max-tokens": integer("N", "of a reply"),
  seed: number("N", "of the sampling"),
  url: text("URL", "an engine served elsewhere (with --api-key)"),
  ...engineFlags,
  home: text("PATH", "the home of trained models (default: none, nothing is kept)"),
};

export const chat = defineCommand({
  name: "chat",
  arguments: ["[MESSAGE...]"],
  summary: "talk with a model in the terminal",
  details: `Talks with a model in the terminal. With a MESSAGE, or when input does not come from a terminal: one reply.
Ctrl-C ends a reply; at the prompt it ends the conversation. /clear starts anew.`,
  flags,
  run: talk,
});

interface Settings {
  model: string | undefined;
  temperature: number | undefined;
  max_completion_tokens: number | undefined;
  seed: number | undefined;
}

/** Writes a reply as it comes. @returns its text, whole or up to the abort. */
async function reply(
  client: AnnealClient,
  messages: readonly ChatMessage[],
  settings: Settings,
  signal: AbortSignal,
): Promise<string> {
  let text = "";
  try {
    const chunks = await client.chat.completions.create({ messages, ...settings, stream: true }, { signal });
    for await (const chunk of chunks) {
      const piece = chunk.choices[0]?.delta.content ?? "";
      text += piece;
      process.stdout.write(process.stdout.isTTY ? printable(piece) : piece);
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  }
  process.stdout.write("\n");
  return text;
}

/** The next line, or null at the end of input or Ctrl-C. */
function ask(terminal: Interface): Promise<string | null> {
  return new Promise((resolve) => {
    const end = () => resolve(null);
    terminal.once("close", end);
    terminal.question("> ", (line) => {
      terminal.off("close", end);
      resolve(line);
    });
  });
}

async function converse(client: AnnealClient, opening: readonly ChatMessage[], settings: Settings): Promise<void> {
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  let replying: AbortController | null = null;
  terminal.on("SIGINT", () => {
    if (replying) replying.abort();
    else terminal.close();
  });
  let messages = [...opening];
  for (;;) {
    const line = await ask(terminal);
    if (line === null) break;
    if (line.trim() === "") continue;
    if (line.trim() === "/clear") {
      messages = [...opening];
      continue;
    }
    messages.push({ role: "user", content: line });
    replying = new AbortController();
    try {
      const text = await reply(client, messages, settings, replying.signal);
      messages.push({ role: "assistant", content: text });
    } catch (error) {
      process.stderr.write(`${(error as Error).message}\n`);
      messages.pop();
    } finally {
      replying = null;
    }
  }
  process.stdout.write("\n");
}

async function readInput(): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of process.stdin) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString("utf8").trim();
}

async function talk(values: Values<typeof flags>, words: readonly string[]): Promise<number> {
  const settings: Settings = {
    model: values.use,
    temperature: values.temperature,
    max_completion_tokens: values["max-tokens"],
    seed: values.seed,
  };
  const opening: ChatMessage[] = values.system ? [{ role: "system", content: values.system }] : [];
  const engineOptions = readEngineOptions(values);
  if (values.url && !values["api-key"])
    throw new UsageError("--url needs --api-key: anneal serve prints it, and the file owner-key of its home holds it");
  await using client = values.url
    ? await (await import("../client/connect.js")).connect(values.url, { apiKey: values["api-key"]! })
    : values.home
      ? await openExistingHome(values.home, engineOptions)
      : await openEngine(engineOptions);

  if (words.length === 0 && process.stdin.isTTY) {
    await converse(client, opening, settings);
    return 0;
  }
  const content = words.length > 0 ? words.join(" ") : await readInput();
  if (content === "") throw new UsageError("there is no message");
  const abort = new AbortController();
  const stop = () => abort.abort();
  process.once("SIGINT", stop);
  await reply(client, [...opening, { role: "user", content }], settings, abort.signal);
  process.off("SIGINT", stop);
  return abort.signal.aborted ? 130 : 0;
}
