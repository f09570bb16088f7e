// What a server keeps of checkpoints, and goes with them.

import type { KeptState } from "../../runtime/runtime.js";
import type { ModelRecord } from "../../store/records.js";
import { keptStates } from "../../training/checkpointFiles.js";
import type { EngineCore } from "../core/core.js";

export class RemoteStates {
  private constructor(
    private readonly states: ReadonlyMap<string, KeptState>,
    private readonly statesStaying: (steps: readonly number[]) => Promise<ReadonlyMap<string, KeptState>>,
    private readonly discardState: (kept: KeptState) => void,
  ) {}

  /** Of a model's steps, before they are deleted; null: its base model is computed here. */
  static async of(core: EngineCore, model: ModelRecord, steps: readonly number[]): Promise<RemoteStates | null> {
    const device = core.bases.get(model.baseModel)?.device;
    if (!device?.discardState) return null;
    const { store } = core;
    const folders = (of: readonly number[]) => of.map((step) => store.files.checkpointFolder(model.id, step));
    const staying = async (of: readonly number[]) => {
      const { referencesOf } = await import("../../training/referenceCheckpoint.js");
      return keptStates([...folders(of), ...(await referencesOf(store, store.jobs.unfinished(model.id)))]);
    };
    return new RemoteStates(await keptStates(folders(steps)), staying, (kept) => device.discardState!(kept));
  }

  /** All but what checkpoints that stay go on from as well, or a job is measured against. */
  async discard(staying: readonly number[]): Promise<void> {
    const still = await this.statesStaying(staying);
    for (const [name, kept] of this.states) if (!still.has(name)) this.discardState(kept);
  }
}
