// Bounds of the schemas that others hold to as well: apart from them, since schemas take time to make.

import type { ValueLimits } from "../jsonCursor.js";

/** More is no adapter any more. */
export const MAX_ADAPTER_RANK = 1024;
/** What most models have. */
export const PROJECTIONS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"] as const;
/** Those, what a fused tensor is (Phi-3), and the modules of layers with a gated delta rule (Qwen3.5), by PEFT's names. */
export const ADAPTER_TARGETS = [
  ...PROJECTIONS,
  ...(["qkv_proj", "gate_up_proj"] as const),
  ...(["in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a", "out_proj"] as const),
] as const;

/**
 * Of a body that is read from a file, what one trajectory may hold, or any other value beside the groups: one of 32,768
 * tokens with their logprobs is a third as large.
 */
export const MAX_TRAJECTORY: ValueLimits = { bytes: 16 * 2 ** 20, containers: 2 ** 20 };
