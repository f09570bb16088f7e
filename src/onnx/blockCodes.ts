// Weights of few bits in the layout of ONNX Runtime's MatMulNBits: every 32 values of a row share a scale.

/** Values that share a scale. */
export const BLOCK_VALUES = 32;

export type CodeBits = 4 | 8;

/** Codes stand around the middle of their range: value = (code - 2^(bits - 1)) * scale. */
export interface CodedBlock {
  codes: Uint8Array;
  /** One for every BLOCK_VALUES values. */
  scales: Float32Array;
}

/** `values` hold whole blocks. Of 4 bits the even value of a pair is in the lower half of a byte. */
export function encodeBlocks(values: Float64Array, bits: CodeBits): CodedBlock {
  const blocks = values.length / BLOCK_VALUES;
  const codes = new Uint8Array((values.length * bits) / 8);
  const scales = new Float32Array(blocks);
  const middle = 2 ** (bits - 1);
  for (let block = 0; block < blocks; block++) {
    const from = block * BLOCK_VALUES;
    // The value furthest from 0 takes the end of the range that has one code more.
    let extreme = 0;
    for (let i = from; i < from + BLOCK_VALUES; i++) if (Math.abs(values[i]!) > Math.abs(extreme)) extreme = values[i]!;
    const scale = Math.fround(extreme / -middle);
    scales[block] = scale;
    if (scale === 0) {
      for (let i = from; i < from + BLOCK_VALUES; i++) put(codes, i, middle, bits);
      continue;
    }
    for (let i = from; i < from + BLOCK_VALUES; i++) {
      const code = Math.round(values[i]! / scale) + middle;
      put(codes, i, Math.min(Math.max(code, 0), 2 * middle - 1), bits);
    }
  }
  return { codes, scales };
}

function put(codes: Uint8Array, at: number, code: number, bits: CodeBits): void {
  if (bits === 8) codes[at] = code;
  else codes[at >> 1]! |= at % 2 === 0 ? code : code << 4;
}
