// Asks a device, in a shader's own words, for the arithmetic of the processor's kernels.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace anneal::vulkan {

// SPIR-V whose float32 results that are denormal become zero, whose zeros keep their sign and infinities and NaN their
// meaning, and which rounds to nearest even; as far as the device can be asked for it.
inline std::vector<uint32_t> with_float_controls(std::span<const uint32_t> words, bool flush_denormals,
                                                 bool preserve_specials, bool round_to_even) {
  constexpr uint32_t header = 5, op_entry_point = 15, op_execution_mode = 16, op_capability = 17;
  struct Control {
    bool wanted;
    uint32_t capability, mode;
  };
  const Control controls[] = {
      {flush_denormals, 4465, 4460}, {preserve_specials, 4466, 4461}, {round_to_even, 4467, 4462}};
  std::vector<uint32_t> result(words.begin(), words.begin() + header);
  for (const Control& c : controls)
    if (c.wanted) result.insert(result.end(), {2u << 16 | op_capability, c.capability});
  for (size_t at = header; at < words.size();) {
    const uint32_t op = words[at] & 0xffff, count = words[at] >> 16;
    result.insert(result.end(), words.begin() + at, words.begin() + at + count);
    if (op == op_entry_point)
      for (const Control& c : controls)
        if (c.wanted) result.insert(result.end(), {4u << 16 | op_execution_mode, words[at + 2], c.mode, 32});
    at += count;
  }
  return result;
}

}  // namespace anneal::vulkan
