// Memory as shaders see it: by address, without descriptors. T is the compute type: bfloat16 with BF16, else float32.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_shader_16bit_storage : require

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Ints { int at[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) buffer Addresses { uvec2 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) buffer Granules { uvec4 at[]; };

// kGranule consecutive elements of T are 16 bytes; kStep of them are summed together, the later first.
#ifdef BF16
layout(buffer_reference, std430, buffer_reference_align = 2) buffer Elements { uint16_t at[]; };
const int kGranule = 8, kStep = 2;
float element(Elements e, int i) { return widened(uint(e.at[i])); }
void put(Elements e, int i, float x) { e.at[i] = uint16_t(narrowed(x)); }
float rounded(float x) { return widened(narrowed(x)); }
// Element i of a granule; i is a constant where loops are unrolled.
float part(uvec4 g, int i) { return as_float((i & 1) == 0 ? g[i >> 1] << 16 : g[i >> 1] & 0xffff0000u); }
#else
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Elements { float at[]; };
const int kGranule = 4, kStep = 1;
float element(Elements e, int i) { return e.at[i]; }
void put(Elements e, int i, float x) { e.at[i] = flushed(x); }
float rounded(float x) { return flushed(x); }
float part(uvec4 g, int i) { return as_float(g[i]); }
#endif

bool present(uvec2 address) { return (address.x | address.y) != 0u; }
// For what is read only where it is present: Mesa's software device reads before it looks.
uvec2 either(uvec2 address, uvec2 other) { return present(address) ? address : other; }
int round_up(int n, int to) { return (n + to - 1) / to * to; }

const int kLanes = 16;  // of a row reduction
