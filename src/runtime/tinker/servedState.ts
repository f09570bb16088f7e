// A state that a server keeps, as something to sample from: an adapter of its own there, since servers sample an adapter as it is, and
// the one that is trained goes on.

import { randomUUID } from "node:crypto";
import { remoteUnexpected } from "../../remoteReplies.js";
import type { AdapterSpec, KeptState } from "../trainer.js";
import { CLEAN_UP_PATIENCE_MS, isStateLost, type TinkerServer } from "./tinkerServer.js";

/** What becomes an adapter on a server. */
export interface AdapterOrigin {
  /** null: as made by the seed, so that it answers as the base model does. */
  kept: KeptState | null;
  withMoments: boolean;
}

const ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"];
const FEED_FORWARD = ["gate_proj", "up_proj", "down_proj"];

/** Which modules an adapter has, as servers tell them apart; null: they cannot be told so. */
export function modulesOf({ targets }: AdapterSpec): { attention: boolean; feedForward: boolean } | null {
  const has = (names: readonly string[]) => names.every((name) => targets.includes(name));
  const hasAny = (names: readonly string[]) => names.some((name) => targets.includes(name));
  const [attention, feedForward] = [has(ATTENTION), has(FEED_FORWARD)];
  return attention === hasAny(ATTENTION) && feedForward === hasAny(FEED_FORWARD) ? { attention, feedForward } : null;
}

/** @returns the server's id of the adapter. */
export async function openAdapter(
  server: TinkerServer,
  baseModel: string,
  spec: AdapterSpec,
  seed: number,
  { kept, withMoments }: AdapterOrigin,
): Promise<string> {
  const what = "make an adapter";
  const modules = modulesOf(spec);
  const { model_id: id } = await server.inSession((session, number) =>
    server.run({
      what,
      path: "/create_model",
      body: () => ({
        session_id: session,
        model_seq_id: number,
        base_model: baseModel,
        lora_config: {
          rank: spec.rank,
          seed,
          train_attn: modules?.attention,
          train_mlp: modules?.feedForward,
          train_unembed: false,
        },
        type: "create_model",
      }),
      isRepeatable: true,
    }),
  );
  if (typeof id !== "string") throw remoteUnexpected(server.url, what, "no id of it");
  if (kept === null) return id;
  try {
    await server.run({
      what: `load ${kept.name}`,
      path: "/load_weights",
      body: () => ({ model_id: id, seq_id: 1, path: kept.name, optimizer: withMoments, type: "load_weights" }),
      isRepeatable: true,
    });
  } catch (error) {
    closeAdapter(server, id);
    throw error;
  }
  return id;
}

/** Its place is free for others some time later; a server that cannot be reached ends it by itself. */
export function closeAdapter(server: TinkerServer, id: string): void {
  const body = () => ({ model_id: id, type: "unload_model" });
  const task = { what: "unload an adapter", path: "/unload_model", body, isRepeatable: true };
  server.run({ ...task, patienceMs: CLEAN_UP_PATIENCE_MS }).catch(() => undefined);
}

export interface OpenState {
  /** Of the adapter. */
  id: string;
  /** What completions name; null: the base model. */
  sampler: string | null;
  /** Of the next request that goes to the adapter. */
  sequence: number;
}

/** Counted: opened when it is first needed, closed by who lets go of it last. */
export class ServedState {
  users = 0;
  #open: Promise<OpenState> | null = null;

  constructor(
    private readonly server: TinkerServer,
    private readonly baseModel: string,
    readonly spec: AdapterSpec,
    private readonly seed: number,
    readonly kept: KeptState | null,
  ) {}

  /** Once more with what the server kept, where it has lost the adapter. */
  async use<T>(work: (state: OpenState) => Promise<T>): Promise<T> {
    const opened = this.#opened();
    try {
      return await work(await opened);
    } catch (error) {
      if (!isStateLost(error)) throw error;
      if (this.#open === opened) this.close();
      return work(await this.#opened());
    }
  }

  close(): void {
    this.#open?.then(
      ({ id, sampler }) => {
        closeAdapter(this.server, id);
        if (sampler !== null) this.server.discard(sampler);
      },
      () => undefined,
    );
    this.#open = null;
  }

  #opened(): Promise<OpenState> {
    if (this.#open) return this.#open;
    const opening = this.#make();
    this.#open = opening;
    opening.catch(() => {
      if (this.#open === opening) this.#open = null;
    });
    return opening;
  }

  async #make(): Promise<OpenState> {
    const { server, baseModel, spec, seed, kept } = this;
    const id = await openAdapter(server, baseModel, spec, seed, { kept, withMoments: false });
    if (kept === null) return { id, sampler: null, sequence: 1 };
    const what = "save an adapter to sample from";
    const { path } = await server.run({
      what,
      path: "/save_weights_for_sampler",
      body: () => ({ model_id: id, seq_id: 2, path: newName(), type: "save_weights_for_sampler" }),
      isRepeatable: true,
    });
    if (typeof path !== "string") throw remoteUnexpected(server.url, what, "no path of it");
    return { id, sampler: path, sequence: 3 };
  }
}

/** What is saved on a server is never saved over. */
export const newName = (): string => `anneal-${randomUUID()}`;
