// Adapters by name, as vLLM loads and unloads them.

import * as z from "zod";
import { byDefault, field, named } from "./fields.js";
import { name } from "./names.js";

const loraName = field(name, "The name that requests ask for it by, as `model`.");

export const loraAdapterLoad = named(
  "LoraAdapterLoadParams",
  z.object({
    lora_name: loraName,
    lora_path: field(
      z.string().min(1),
      "A PEFT adapter folder on the machine of the engine, under a data root of the caller's.",
    ),
    load_inplace: field(
      byDefault(z.boolean(), false),
      "Whether an adapter of that name is replaced: requests from then on have the new one, those under way keep theirs.",
    ),
    base_model_name: field(z.string().nullish(), "Id of the base model that it is for. Default: the engine's first."),
  }),
  "An adapter to load.",
);

export const loraAdapterUnload = named(
  "LoraAdapterUnloadParams",
  z.object({ lora_name: loraName }),
  "An adapter to unload.",
);
