// Bounds of the schemas that others hold to as well: apart from them, since schemas take time to make.

import type { ValueLimits } from "../jsonCursor.js";

/** More is no adapter any more. */
export const MAX_ADAPTER_RANK = 1024;
/**
 * Of a body that is read from a file, what one trajectory may hold, or any other value beside the groups: one of 32,768
 * tokens with their logprobs is a third as large.
 */
export const MAX_TRAJECTORY: ValueLimits = { bytes: 16 * 2 ** 20, containers: 2 ** 20 };
