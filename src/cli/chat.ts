import { NotFoundError } from "../errors.js";
import type { AnnealClient } from "../types/client.js";
import { defaultHome } from "../userFolder.js";
import { Conversation, type Piece, type SamplingSettings } from "./chat/conversation.js";
import { converse } from "./chat/converse.js";
import { defineCommand } from "./command.js";
import { engineFlags, readEngineOptions } from "./engineFlags.js";
import { isModelName, servedModel } from "./findModel.js";
import { integer, number, text, UsageError, type Values } from "./flags.js";
import { openEngine, openExistingHome, openHome, refuseEngineFlags } from "./openHome.js";
import { bold, dim, printable } from "./terminalText.js";

const flags = {
  use: text(
    "NAME",
    "the model to talk with, such as project/name or project/name:step3 (default: the first base model)",
  ),
  system: text("TEXT", "what the model is told first"),
  temperature: number("T", "0 is greedy"),
  "max-tokens": integer("N", "of a reply"),
  seed: number("N", "of the sampling", Number.isSafeInteger, "that is whole"),
  url: text("URL", "an engine served elsewhere (with --api-key)"),
  ...engineFlags,
  home: text("PATH", "the home of trained models (default: ~/.anneal with --use, otherwise none)"),
};

export const chat = defineCommand({
  name: "chat",
  arguments: ["[PROJECT/NAME]", "[MESSAGE...]"],
  summary: "talk with a model in the terminal",
  details: `Talks with a model in the terminal. With a MESSAGE, or when input does not come from a terminal: one reply. A first word of
the form PROJECT/NAME, with a step after it or without, is the model's, as --use names it too.
Ctrl-C stops a reply, twice leaves; /help in the conversation says what else can be done.`,
  flags,
  run: talk,
});

async function readInput(): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of process.stdin) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString("utf8").trim();
}

async function talk(values: Values<typeof flags>, words: readonly string[]): Promise<number> {
  const settings: SamplingSettings = {
    temperature: values.temperature,
    max_completion_tokens: values["max-tokens"],
    seed: values.seed,
  };
  const isTerminal = process.stdin.isTTY && process.stdout.isTTY;
  const isNamed = values.use === undefined && words.length > 0 && isModelName(words[0]!);
  const use = isNamed ? words[0] : values.use;
  const said = isNamed ? words.slice(1) : words;
  const message = said.length > 0 ? said.join(" ") : isTerminal ? null : await readInput();
  if (message?.trim() === "") throw new UsageError("there is no message");
  await using client = await openClient({ ...values, use });
  const model =
    use === undefined
      ? null
      : await servedModel(client, use).catch((error: Error) => {
          if (!isNamed || !(error instanceof NotFoundError)) throw error;
          const hint = `to say "${use}" to a model, name it before: --use NAME; ${error.hint ?? ""}`;
          throw new UsageError(error.message, hint);
        });
  const conversation = new Conversation(client, model, values.system ?? null, settings);
  if (message !== null) return await answer(conversation, message);
  await greet(conversation);
  await converse(conversation);
  return 0;
}

/** Where the models are: behind an address, in a home, or those of the package. */
async function openClient(values: Values<typeof flags>): Promise<AnnealClient> {
  if (values.url !== undefined) {
    refuseEngineFlags(values, `the engine at ${values.url}`, "leave them out, or talk without --url");
    if (values["api-key"] === undefined) {
      throw new UsageError(
        "--url needs --api-key: anneal serve prints it, and the file owner-key of its home holds it",
      );
    }
    const { Engine } = await import("../index.js");
    return Engine.connect(values.url, { apiKey: values["api-key"] });
  }
  if (values.home !== undefined) return openExistingHome(values);
  const { isHome } = await import("../index.js");
  // Whoever names a model may mean one that was trained where the other commands keep them.
  const isTrained = values.use !== undefined && isHome(defaultHome());
  return isTrained ? openHome(values) : openEngine(readEngineOptions(values));
}

async function greet({ client, model }: Conversation): Promise<void> {
  const { data } = await client.models.list();
  const trained = data.filter(({ model_id }) => model_id !== null).length;
  const { packageVersion } = await import("../packageFiles.js");
  console.log(`${bold(`anneal ${packageVersion()}`)}  ${model ?? data[0]!.id}`);
  const others = trained > 0 ? `; ${trained} trained ${trained === 1 ? "model" : "models"}: /model` : "";
  console.log(dim(`/help says what can be done here; Ctrl-C stops a reply, twice leaves${others}`));
}

/** One reply on standard output. */
async function answer(conversation: Conversation, message: string): Promise<number> {
  const abort = new AbortController();
  const stop = () => abort.abort();
  process.once("SIGINT", stop);
  const show = ({ kind, text }: Piece) => {
    if (kind === "content") process.stdout.write(process.stdout.isTTY ? printable(text) : text);
  };
  await conversation.reply(message, show, abort.signal);
  process.stdout.write("\n");
  process.off("SIGINT", stop);
  return abort.signal.aborted ? 130 : 0;
}
