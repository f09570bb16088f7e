import type { Logger } from "../types/logger.js";
import { defaultHome } from "../userFolder.js";
import { defineCommand } from "./command.js";
import { engineFlags, readEngineOptions } from "./engineFlags.js";
import { bytes, integer, origins, text, toggle, type Values } from "./flags.js";
import { interrupted, MAX_CLOSING } from "./interrupted.js";
import { openEngine } from "./openHome.js";

/** Seconds. */
const DEFAULT_DRAIN = 10;
/** What clients may take to read that their requests failed, in milliseconds. */
const MAX_FAREWELL = 2000;

const flags = {
  host: text("HOST", "address to listen on (default 127.0.0.1)"),
  port: integer("N", "port; 0 takes a free one (default 8000)", { from: 0, to: 65535 }),
  ...engineFlags,
  "api-key": text("KEY", "the owner's key for this run (default: the one kept in the home)"),
  "chat-body-limit": bytes("SIZE", "bytes of a request at most, but of training data and files (default 8MiB)"),
  "body-limit": bytes("SIZE", "bytes of training data, or of a file, at most (default 1GiB)"),
  "allow-origin": origins("ORIGIN", "pages of this origin may call from a browser; several with commas, * for all"),
  drain: integer("SECONDS", "what requests under way may take after SIGTERM (default 10)", { from: 0, to: 86_400 }),
  verbose: toggle("also say what is done, not only what goes wrong"),
};

export const serve = defineCommand({
  name: "serve",
  summary: "serve chat completions and training over HTTP",
  details: `Serves chat completions and training over HTTP. Needs no configuration: makes its home, serves the embedded model,
prints the address and an API key.`,
  flags,
  run: serveUntilInterrupted,
});

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

async function serveUntilInterrupted(values: Values<typeof flags>): Promise<number> {
  const { host = "127.0.0.1", port = 8000, drain = DEFAULT_DRAIN } = values;
  const draining = new AbortController();
  const face = {
    chatBodyLimit: values["chat-body-limit"],
    bodyLimit: values["body-limit"],
    allowOrigin: values["allow-origin"],
    drain: draining.signal,
  };
  const [{ createServer }, { listen }] = await Promise.all([import("../index.js"), import("../server/listen.js")]);
  const stopped = interrupted(drain * 1000 + MAX_CLOSING);
  const logger = terminalLogger(values.verbose ?? false);
  const engine = await openEngine({
    toolParser: "none",
    ...readEngineOptions(values),
    home: values.home ?? defaultHome(),
    logger,
  });
  try {
    const onFull = (connections: number) =>
      logger.warn("connections are refused: as many are open as the limit of open files leaves room for", {
        connections,
      });
    const listening = await listen(createServer(engine, face), { host, port, onFull });
    engine.setAddress(listening.address);
    const models = await engine.baseModels.list();
    console.log(`Serving ${models.join(", ")} at ${listening.address}/v1`);
    // Whoever gave a key knows it, and may not want it in a log.
    console.log(`API key: ${values["api-key"] === undefined ? engine.apiKey : "the one that was given"}`);
    console.log(`Home:    ${engine.home}`);
    await stopped;
    process.stderr.write("closing; jobs go on at the next start\n");
    draining.abort();
    await listening.idle(drain * 1000);
    // What is still under way fails, which its clients are told while there are connections.
    await engine.close().finally(async () => {
      await listening.idle(MAX_FAREWELL);
      await listening.close(0);
    });
  } finally {
    await engine.close();
  }
  return 0;
}
