// Matrices W[n][k] of the compute type, or quantised: in groups of 32 k with a scale, or two. Those lie as records
// [n / 32][k / 32] for 32 outputs each: codes [32] of 16 bytes, or [2][32] where they have 8 bits; scales [kParts][32]
// float32; and of groups with minima, or zero points of their own, these [32] float32.
layout(constant_id = 3) const int kBits = 0;  // of a code: 4 or 8; 0: weights of T
layout(constant_id = 4) const int kParts = 1;
layout(constant_id = 5) const int kZero = 0;  // below 0: every group has its own
layout(constant_id = 6) const int kMinima = 0;

const int kGroup = 32;

int code_granules() { return kBits == 4 ? 32 : 64; }
bool has_extras() { return kZero < 0 || kMinima != 0; }
int record_of(int groups, int col, int g) {
  return (col / 32 * groups + g) * (code_granules() + (kParts + (has_extras() ? 1 : 0)) * 8);
}
// Of an output in a row of 32 numbers of a record: its scale, and its minimum or zero point.
float scale_of(Granules w, int record, int lane, int part) {
  return as_float(w.at[record + code_granules() + part * 8 + lane / 4][lane & 3]);
}
float extra_of(Granules w, int record, int lane) {
  return has_extras() ? as_float(w.at[record + code_granules() + kParts * 8 + lane / 4][lane & 3]) : 0.0;
}
int zero_of(float extra) { return kZero < 0 ? int(extra) : kZero; }
// Codes 4j .. 4j + 3 of a group.
ivec4 codes_of(Granules w, int record, int lane, int j) {
  if (kBits == 4) {
    const uint word = w.at[record + lane][j >> 1] >> ((j & 1) * 16);
    return ivec4(word & 15u, (word >> 4) & 15u, (word >> 8) & 15u, (word >> 12) & 15u);
  }
  const uint word = w.at[record + (j >> 2) * 32 + lane][j & 3];
  return ivec4(word & 255u, (word >> 8) & 255u, (word >> 16) & 255u, word >> 24);
}
// Weights 4j .. 4j + 3 of a group, each rounded after the product with its scale and after the minimum is added.
vec4 values_of(Granules w, int record, int lane, int j) {
  const float extra = extra_of(w, record, lane), scale = scale_of(w, record, lane, kParts == 2 ? j >> 2 : 0);
  const ivec4 codes = codes_of(w, record, lane, j) - zero_of(extra);
  vec4 values;
  for (int i = 0; i < 4; i++) {
    values[i] = float(codes[i]) * scale;
    if (kMinima != 0) values[i] = values[i] + extra;
  }
  return values;
}

// Elements granule * kGranule and on of row `col` of W, of T.
uvec4 weights_of(Granules w, int k, int col, int granule) {
  if (kBits == 0) return w.at[(col / 32 * granules_of(k) + granule) * 32 + col % 32];
  const int first = granule * kGranule, record = record_of(k / kGroup, col, first / kGroup);
  uvec4 granules;
  for (int quad = 0; quad < kGranule / 4; quad++) {
    const vec4 values = values_of(w, record, col % 32, first % kGroup / 4 + quad);
    if (kBf16) {
      granules[2 * quad] = narrowed(values.x) | narrowed(values.y) << 16;
      granules[2 * quad + 1] = narrowed(values.z) | narrowed(values.w) << 16;
    } else {
      granules = uvec4(as_bits(flushed(values.x)), as_bits(flushed(values.y)), as_bits(flushed(values.z)),
                       as_bits(flushed(values.w)));
    }
  }
  return granules;
}
// Elements i .. i + 3 of it, i a multiple of 4, not rounded to T.
vec4 four_weights_of(Granules w, int k, int row, int i) {
  if (kBits != 0) return values_of(w, record_of(k / kGroup, row, i / kGroup), row % 32, i % kGroup / 4);
  const uvec4 granule = w.at[(row / 32 * granules_of(k) + i / kGranule) * 32 + row % 32];
  if (!kBf16) return uintBitsToFloat(granule);
  const uvec2 pairs = i % kGranule == 0 ? granule.xy : granule.zw;
  return vec4(widened(pairs.x), as_float(pairs.x & 0xffff0000u), widened(pairs.y), as_float(pairs.y & 0xffff0000u));
}
