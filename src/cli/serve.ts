import { Engine } from "../engine/engine.js";
import { createServer } from "../server/createServer.js";
import { listen } from "../server/listen.js";
import type { Logger } from "../types/logger.js";
import {
  defaultHome,
  engineFlags,
  engineUsage,
  readBytes,
  readEngineOptions,
  readFlags,
  readInteger,
  refuseArguments,
} from "./flags.js";
import { withLoadingProgress } from "./progress.js";

export const usage = `anneal serve [options]

Serves chat completions and training over HTTP. Needs no configuration: makes its home, serves the embedded model,
prints the address and an API key. Every option can also be set as an environment variable (ANNEAL_PORT, ...).

  --host HOST            address to listen on (default 127.0.0.1)
  --port N               port; 0 takes a free one (default 8000)
  --home PATH            folder for everything durable (default ~/.anneal)
  --api-key KEY          the owner's key for this run (default: the one kept in the home)
${engineUsage}
  --chat-body-limit SIZE bytes of a chat request at most (default 8MiB)
  --body-limit SIZE      bytes of any other request at most (default 1GiB)
  --verbose              also say what is done, not only what goes wrong`;

const options = {
  ...engineFlags,
  host: { type: "string" },
  port: { type: "string" },
  "chat-body-limit": { type: "string" },
  "body-limit": { type: "string" },
  verbose: { type: "boolean" },
} as const;

/** One line per message, on standard error. */
function terminalLogger(verbose: boolean): Logger {
  const say = (level: string) => (message: string, fields?: Record<string, unknown>) => {
    const detail = Object.entries(fields ?? {}).map(([name, value]) => {
      const text = value instanceof Error ? (value.stack ?? value.message) : JSON.stringify(value);
      return ` ${name}=${text}`;
    });
    process.stderr.write(`${level}: ${message}${detail.join("")}\n`);
  };
  const quiet = () => undefined;
  return {
    debug: quiet,
    info: verbose ? say("info") : quiet,
    warn: say("warning"),
    error: say("error"),
  };
}

/** Resolves at the first interrupt or termination signal; a second one ends the process at once. */
function interrupted(): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM"] as const) {
      process.once(signal, () => {
        process.once(signal, () => process.exit(130));
        resolve();
      });
    }
  });
}

export async function serve(args: readonly string[]): Promise<number> {
  const { values, positionals } = readFlags(args, options);
  if (values.help) {
    console.log(usage);
    return 0;
  }
  refuseArguments(positionals);
  const port = readInteger("port", values.port, 0, 65535) ?? 8000;
  const host = values.host ?? "127.0.0.1";
  const limits = {
    chatBodyLimit: readBytes("chat-body-limit", values["chat-body-limit"]),
    bodyLimit: readBytes("body-limit", values["body-limit"]),
  };
  const engineOptions = {
    toolParser: "none" as const,
    ...readEngineOptions(values),
    home: values.home ?? defaultHome(),
    logger: terminalLogger(values.verbose ?? false),
  };
  const stopped = interrupted();
  const engine = await withLoadingProgress(() => Engine.open(engineOptions));
  try {
    const listening = await listen(createServer(engine, limits), { host, port });
    engine.setAddress(listening.address);
    const models = await engine.baseModels.list();
    console.log(`Serving ${models.join(", ")} at ${listening.address}/v1`);
    console.log(`API key: ${engine.apiKey}`);
    console.log(`Home:    ${engine.home}`);
    await stopped;
    process.stderr.write("closing; jobs go on at the next start\n");
    await listening.close();
  } finally {
    await engine.close();
  }
  return 0;
}
