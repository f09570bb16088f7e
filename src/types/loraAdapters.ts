// Made of src/schemas/loraAdapters.ts by `npm run generate`: change those.

/** An adapter to load. */
export interface LoraAdapterLoadParams {
  /** The name that requests ask for it by, as `model`. */
  lora_name: string;
  /** A PEFT adapter folder on the machine of the engine, under a data root of the caller's. Not empty. */
  lora_path: string;
  /**
   * Whether an adapter of that name is replaced: requests from then on have the new one, those under way keep theirs.
   * Default: false.
   */
  load_inplace?: boolean | null;
  /** Id of the base model that it is for. Default: the engine's first. */
  base_model_name?: string | null;
}

/** An adapter to unload. */
export interface LoraAdapterUnloadParams {
  /** The name that requests ask for it by, as `model`. */
  lora_name: string;
}
