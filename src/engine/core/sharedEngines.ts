import { realpathSync } from "node:fs";
import { makeHome } from "../../store/homeFolder.js";

/** An engine that its openers share. */
interface Shared<E> {
  engine: Promise<E>;
  openers: number;
  /** Set while the last opener's close is under way. */
  closing: Promise<void> | null;
}

/** On the global object, so that copies of this module (bundlers, test runners, hot reload) share it. */
const registryKey = Symbol.for("anneal.engines.1");

function registry<E>(): Map<string, Shared<E>> {
  const holder = globalThis as { [registryKey]?: Map<string, Shared<E>> };
  holder[registryKey] ??= new Map();
  return holder[registryKey];
}

/** One name for a folder, given by an absolute path, however it is written; makes it. */
export function canonicalHome(home: string): string {
  makeHome(home);
  return realpathSync(home);
}

/** The engine of a home: opened by the first caller, counted for the others. */
export async function openShared<E>(home: string, open: () => Promise<E>): Promise<E> {
  const engines = registry<E>();
  for (let closing = engines.get(home)?.closing; closing; closing = engines.get(home)?.closing) await closing;
  let shared = engines.get(home);
  if (!shared) {
    shared = { engine: open(), openers: 0, closing: null };
    engines.set(home, shared);
  }
  shared.openers++;
  try {
    return await shared.engine;
  } catch (error) {
    if (engines.get(home) === shared) engines.delete(home);
    throw error;
  }
}

/** Ends one opener's share; the last one's runs `close` and waits for it, as does everyone who closes meanwhile. */
export async function closeShared<E>(home: string, close: () => Promise<void>): Promise<void> {
  const engines = registry<E>();
  const shared = engines.get(home);
  if (!shared) return;
  if (shared.closing) return shared.closing;
  if (--shared.openers > 0) return;
  shared.closing = close().finally(() => engines.delete(home));
  await shared.closing;
}
