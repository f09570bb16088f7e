// Float32 arithmetic with the bits of the processor's kernels (cpu/kernels): what Vulkan leaves to a driver is done here.
// Every operation is decorated NoContraction (shader_words.cpp), so that none is fused that is not written as mad().

float as_float(uint bits) { return uintBitsToFloat(bits); }
uint as_bits(float x) { return floatBitsToUint(x); }

const uint kExponent = 0x7f800000u, kMantissa = 0x007fffffu, kSign = 0x80000000u, kOne = 0x3f800000u;

// What devices do to every result that can be asked to; others keep denormals, and what is stored goes through this.
float flushed(float x) { return (as_bits(x) & kExponent) == 0u ? as_float(as_bits(x) & kSign) : x; }

// Loops over multiply-adds, which are long where they are done in double precision: then they stay loops.
#extension GL_EXT_control_flow_attributes : require
#define LOOP [[dont_unroll]]
// Ones over registers, all of which take a turn at least: with a fused multiply-add shader_words.cpp has them unrolled.
#define UNROLL [[dont_unroll, min_iterations(1)]]

// a b + c, rounded once: what a device without a fused multiply-add does. For others shader_words.cpp puts an Fma in the
// place of it, and lets loops be unrolled. Nothing else computes in double.
// The product is exact in double; the sum is rounded to odd there, so that the rounding to float is the only one that
// counts (Boldo and Melquiond, 2008).
float mad(float a, float b, float c) {
  const double p = double(a) * double(b), d = double(c), s = p + d, t = s - p;
  const double lost = (p - (s - t)) + (d - t);  // NaN where s is infinite or NaN
  uvec2 bits = unpackDouble2x32(s);
  if ((bits.x & 1u) == 0u && (lost > 0.0lf || lost < 0.0lf)) {
    // An even result moves to the odd neighbour on the side of what was lost.
    const bool outward = (lost > 0.0lf) == (s > 0.0lf);
    if (!outward && bits.x == 0u) bits.y -= 1u;
    bits.x = outward ? bits.x + 1u : bits.x - 1u;
  }
  return flushed(float(packDouble2x32(bits)));
}

// ---- bfloat16, in the low bits: to nearest even, denormals to zero

uint narrowed(float x) {
  const uint u = as_bits(x);
  if ((u & 0x7fffffffu) > kExponent) return (u >> 16) | 0x40u;
  if ((u & kExponent) == 0u) return (u >> 16) & 0x8000u;
  return (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
}
float widened(uint bits) { return as_float(bits << 16); }
