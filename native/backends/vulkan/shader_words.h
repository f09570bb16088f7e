// A shader's words as a device takes them, made of those that are shipped for all devices.
#pragma once
#include <cstdint>
#include <vector>

#include "shaders/spirv.h"

namespace anneal::vulkan {

// How a device is asked, in a shader's own words, for the arithmetic of the processor's kernels.
struct ShaderArithmetic {
  bool fused = false;               // mad() is its own multiply-add; else it is done in double precision
  bool flushes_denormals = false;   // of float32 results
  bool preserves_specials = false;  // zeros keep their sign, infinities and NaN their meaning
  bool rounds_to_even = false;
  bool multiplies_bytes = false;  // four at once (shaders/byte_products.glsl)
};

std::vector<uint32_t> shader_words(Shader, const ShaderArithmetic&);

}  // namespace anneal::vulkan
