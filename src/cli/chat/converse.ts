import { dim, printable, problem, red } from "../terminalText.js";
import type { Conversation } from "./conversation.js";
import { isSlashCommand, runSlashCommand } from "./slashCommands.js";
import { TerminalInput } from "./terminalInput.js";

const LEAVE = "Ctrl-C again leaves";

/** Talks at a terminal until the user leaves. */
export async function converse(
  conversation: Conversation,
  input: NodeJS.ReadableStream = process.stdin,
  output: NodeJS.WriteStream = process.stdout,
): Promise<void> {
  const say = (text: string) => output.write(`${text}\n`);
  let replying: AbortController | null = null;
  /** Whether the last thing that the user did was Ctrl-C. */
  let interrupted = false;
  const terminal = new TerminalInput(input, output, () => {
    if (replying && !replying.signal.aborted) {
      replying.abort();
      interrupted = true;
    } else if (!replying && terminal.isBegun) {
      terminal.clear();
      interrupted = false;
    } else if (interrupted) terminal.close();
    else {
      terminal.clear(`${dim(LEAVE, output)}\n`);
      interrupted = true;
    }
  });
  const terminated = () => {
    terminal.close();
    process.exit(143);
  };
  process.once("SIGTERM", terminated);
  try {
    for (let message = await terminal.next(); message !== null; message = await terminal.next()) {
      interrupted = false;
      if (message.trim() === "") continue;
      try {
        if (isSlashCommand(message)) {
          const answer = await runSlashCommand(conversation, message);
          if (answer === null) break;
          say(dim(printable(answer), output));
          continue;
        }
        replying = new AbortController();
        const ended = await conversation.reply(message, shown(output), replying.signal);
        say("");
        if (replying.signal.aborted) say(dim(`(stopped; ${LEAVE})`, output));
        if (ended === "length") say(dim("(cut off: no more tokens were allowed)", output));
      } catch (error) {
        say(red(`\n${printable(problem(error))}`, output));
      } finally {
        replying = null;
      }
    }
  } finally {
    process.off("SIGTERM", terminated);
    terminal.close();
  }
  say("");
}

/** Writes pieces as they come; thoughts are dim, and their end is an empty line. */
function shown(output: NodeJS.WriteStream): Parameters<Conversation["reply"]>[1] {
  let isThinking = false;
  return ({ kind, text }) => {
    if (isThinking && kind === "content") output.write("\n\n");
    isThinking = kind === "thought";
    output.write(isThinking ? dim(printable(text), output) : printable(text));
  };
}
