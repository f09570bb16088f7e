// What the options `dtype`, `quantize` and `kvCache` of a model may be.

import type { DType, KvCache, Quantization } from "./types/options.js";

export const DTYPES = ["auto", "float32", "bfloat16"] as const satisfies readonly DType[];
export const QUANTIZATIONS = ["int16", "q8", "q4"] as const satisfies readonly Quantization[];
export const KV_CACHES = ["exact", "int8"] as const satisfies readonly KvCache[];
