import { appendFile } from "node:fs/promises";
import { systemReason } from "../../errors.js";
import { userFolder } from "../../userFolder.js";
import { servedModel } from "../findModel.js";
import { nearest } from "../nearest.js";
import type { Conversation } from "./conversation.js";

interface SlashCommand {
  name: string;
  argument?: string;
  summary: string;
  /** @returns what to tell the user, null to leave. */
  run(conversation: Conversation, argument: string): string | null | Promise<string | null>;
}

const DEFAULT_FILE = "conversations.jsonl";

const commands: readonly SlashCommand[] = [
  { name: "help", summary: "say this", run: help },
  { name: "exit", summary: "leave, as Ctrl-D and twice Ctrl-C do", run: () => null },
  {
    name: "system",
    argument: "[TEXT]",
    summary: "show or set what the model is told first",
    run(conversation, text) {
      if (text !== "") conversation.system = text;
      return conversation.system ?? "(no system message)";
    },
  },
  {
    name: "reset",
    summary: "forget what was said; the system message stays",
    run(conversation) {
      conversation.reset();
      return "a new conversation";
    },
  },
  { name: "model", argument: "[NAME]", summary: "show the models there are, or talk with another", run: chooseModel },
  {
    name: "save",
    argument: "[FILE]",
    summary: `append the conversation to a .jsonl file that anneal train takes (${DEFAULT_FILE})`,
    run: save,
  },
];

/** Other words for some of them. */
const aliases: Record<string, string> = { quit: "exit", bye: "exit", clear: "reset", "?": "help" };

function help(): string {
  const spelled = commands.map(({ name, argument = "" }) => `/${name} ${argument}`);
  const width = Math.max(...spelled.map((text) => text.length));
  return `${commands.map(({ summary }, i) => `${spelled[i]!.padEnd(width)}  ${summary}`).join("\n")}
A line that ends with \\ goes on in the next, lines between """ are one message, and so are pasted ones.
A message that begins with a slash is sent as it is after a space.`;
}

async function chooseModel(conversation: Conversation, name: string): Promise<string> {
  if (name !== "") conversation.model = await servedModel(conversation.client, name);
  const { data } = await conversation.client.models.list();
  const model = conversation.model ?? data[0]!.id;
  if (name !== "") return `talking with ${model}`;
  const isUsed = (id: string, root: string) => model === id || model === root.replace(/:step\d+$/, "");
  return data
    .map(({ id, root, model_id }) => `${isUsed(id, root) ? "*" : " "} ${model_id === null ? id : root}`)
    .join("\n");
}

async function save(conversation: Conversation, file: string): Promise<string> {
  // No shell has looked at it.
  const path = (file || DEFAULT_FILE).replace(/^~(?=\/)/, userFolder());
  if (!/\.jsonl$/i.test(path)) return `/save appends a line of JSON: name a .jsonl file, not ${path}`;
  const { messages } = conversation;
  if (!messages.some(({ role }) => role === "assistant")) return "nothing was said yet";
  try {
    await appendFile(path, `${JSON.stringify({ messages })}\n`);
  } catch (error) {
    return `${path} cannot be written (${systemReason(error as NodeJS.ErrnoException)})`;
  }
  return `appended to ${path}`;
}

/** Whether a message is meant for this program. `/usr/bin` and the like are not. */
export const isSlashCommand = (message: string): boolean => /^\/[\w?-]*(\s|$)/.test(message) && !message.includes("\n");

/** @returns what to tell the user, null to leave. */
export async function runSlashCommand(conversation: Conversation, message: string): Promise<string | null> {
  const [, word, argument] = /^\/(\S*)\s*(.*)$/.exec(message)!;
  const known = commands.map(({ name }) => name);
  const lower = word!.toLowerCase();
  const name = aliases[lower] ?? lower;
  const command = commands.find((one) => one.name === name);
  if (command) return command.run(conversation, argument!.trim());
  const meant = nearest(name, [...known, ...Object.keys(aliases)]);
  return `there is no /${word}${meant ? `; did you mean /${meant}?` : ""}\n/help lists what there is`;
}
