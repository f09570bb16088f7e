// Memory as shaders see it: by address, without descriptors. T is the compute type, float32 or bfloat16.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_shader_16bit_storage : require

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Ints { int at[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) buffer Addresses { uvec2 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) buffer Granules { uvec4 at[]; };

// kGranule consecutive elements of T are 16 bytes; kStep of them are summed together, the later first.
layout(constant_id = 0) const int kGranule = 4;
const int kStep = kGranule / 4;
const bool kBf16 = kGranule == 8;
layout(buffer_reference, std430, buffer_reference_align = 2) buffer Elements { uint16_t bf16[]; };  // or float32

float element(Elements e, int i) {
  if (kBf16) return widened(uint(e.bf16[i]));
  return Floats(uvec2(e)).at[i];
}
void put(Elements e, int i, float x) {
  if (kBf16)
    e.bf16[i] = uint16_t(narrowed(x));
  else
    Floats(uvec2(e)).at[i] = flushed(x);
}
float rounded(float x) { return kBf16 ? widened(narrowed(x)) : flushed(x); }
// Element i of a granule; i is a constant where loops are unrolled.
float part(uvec4 g, int i) {
  if (kBf16) return as_float((i & 1) == 0 ? g[i >> 1] << 16 : g[i >> 1] & 0xffff0000u);
  return as_float(g[i]);
}

bool present(uvec2 address) { return (address.x | address.y) != 0u; }
// For what is read only where it is present: Mesa's software device reads before it looks.
uvec2 either(uvec2 address, uvec2 other) { return present(address) ? address : other; }
int round_up(int n, int to) { return (n + to - 1) / to * to; }

const int kLanes = 16;  // of a row reduction
