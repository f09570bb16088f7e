import { createInterface, type Interface } from "node:readline";
import { Engine } from "../engine/engine.js";
import type { ChatMessage } from "../types/chat.js";
import type { AnnealClient } from "../types/client.js";
import { engineFlags, engineUsage, readEngineOptions, readFlags, UsageError } from "./flags.js";
import { openExistingHome } from "./openHome.js";
import { printable } from "./printable.js";
import { withLoadingProgress } from "./progress.js";

export const usage = `anneal chat [options] [MESSAGE]

Talks with a model in the terminal. With a MESSAGE, or when input does not come from a terminal: one reply.
Ctrl-C ends a reply; at the prompt it ends the conversation. /clear starts anew.

  --use NAME             the model to talk with, such as local/project/name:step3 (default: the first base model)
  --system TEXT          what the model is told first
  --temperature T        0 is greedy
  --max-tokens N         of a reply
  --seed N
  --url URL              an engine served elsewhere (with --api-key)
  --home PATH            the home of trained models (default: none, nothing is kept)
${engineUsage}`;

const options = {
  ...engineFlags,
  use: { type: "string" },
  system: { type: "string" },
  temperature: { type: "string" },
  "max-tokens": { type: "string" },
  seed: { type: "string" },
  url: { type: "string" },
} as const;

function readNumber(flag: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (text.trim() !== "" && Number.isFinite(Number(text))) return Number(text);
  throw new UsageError(`--${flag} takes a number, not "${text}"`);
}

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

export async function chat(args: readonly string[]): Promise<number> {
  const { values, positionals } = readFlags(args, options);
  if (values.help) {
    console.log(usage);
    return 0;
  }
  const settings: Settings = {
    model: values.use,
    temperature: readNumber("temperature", values.temperature),
    max_completion_tokens: readNumber("max-tokens", values["max-tokens"]),
    seed: readNumber("seed", values.seed),
  };
  const opening: ChatMessage[] = values.system ? [{ role: "system", content: values.system }] : [];
  const engineOptions = readEngineOptions(values);
  if (values.url && !values["api-key"])
    throw new UsageError("--url needs --api-key: anneal serve prints it, and the file owner-key of its home holds it");
  await using client = values.url
    ? await Engine.connect(values.url, { apiKey: values["api-key"]! })
    : values.home
      ? await openExistingHome(values.home, engineOptions)
      : await withLoadingProgress(() => Engine.open(engineOptions));

  if (positionals.length === 0 && process.stdin.isTTY) {
    await converse(client, opening, settings);
    return 0;
  }
  const content = positionals.length > 0 ? positionals.join(" ") : await readInput();
  if (content === "") throw new UsageError("there is no message");
  const abort = new AbortController();
  const stop = () => abort.abort();
  process.once("SIGINT", stop);
  await reply(client, [...opening, { role: "user", content }], settings, abort.signal);
  process.off("SIGINT", stop);
  return abort.signal.aborted ? 130 : 0;
}
