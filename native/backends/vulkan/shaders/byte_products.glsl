// Codes four to a word, as signed bytes, and their products: at once, where a device has an instruction for that.
#extension GL_EXT_spirv_intrinsics : require
layout(constant_id = 7) const int kDots = 0;  // 1: it has

// Where a device has none, shader_words.cpp puts something else in its place, which is never reached.
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019], id = 4450)
int dot_at_once(uint a, uint b, spirv_literal int packed_4x8);

ivec4 signed_bytes(uint word) {
  return ivec4(bitfieldExtract(int(word), 0, 8), bitfieldExtract(int(word), 8, 8), bitfieldExtract(int(word), 16, 8),
               bitfieldExtract(int(word), 24, 8));
}
int dot_bytes(uint a, uint b) {
  if (kDots != 0) return dot_at_once(a, b, 0);
  const ivec4 four = signed_bytes(a) * signed_bytes(b);
  return four.x + four.y + four.z + four.w;
}

// Codes 4j .. 4j + 3 of a group of weights as signed bytes: those that fill a byte less kAboveBytes.
const int kAboveBytes = kBits / 8 * 128;
uint bytes_of_codes(Granules w, int record, int lane, int j) {
  if (kBits == 8) return w.at[record + (j >> 2) * 32 + lane][j & 3] ^ 0x80808080u;
  uint word = w.at[record + lane][j >> 1] >> ((j & 1) * 16) & 0xffffu;
  word = (word | word << 8) & 0x00ff00ffu;
  return (word | word << 4) & 0x0f0f0f0fu;
}
// What bytes_of_codes() lack of the codes less their zero point, of a weight.
int rest_of(int zero) { return kAboveBytes - zero; }
// The sum of a row's codes that share a scale of weights, of what activation_codes.comp says of a group.
int sum_of_codes(uvec4 of_row, int part) {
  return kParts == 2 ? int(part == 0 ? of_row.z : of_row.w) : int(of_row.z + of_row.w);
}
