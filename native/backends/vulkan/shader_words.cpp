#include "shader_words.h"

#include <cstring>
#include <span>
#include <unordered_set>

namespace anneal::vulkan {
namespace {

// Of SPIR-V's specification.
enum Op : uint32_t {
  kExtension = 10,
  kExtInstImport = 11,
  kExtInst = 12,
  kEntryPoint = 15,
  kExecutionMode = 16,
  kCapability = 17,
  kFirstType = 19,
  kTypeFloat = 22,
  kTypePointer = 32,
  kLastType = 39,
  kConstant = 43,
  kFunction = 54,
  kFunctionParameter = 55,
  kFunctionEnd = 56,
  kLoad = 61,
  kDecorate = 71,
  kFConvert = 115,
  kFAdd = 129,
  kFSub = 131,
  kIMul = 132,
  kFMul = 133,
  kFDiv = 136,
  kVectorTimesScalar = 142,
  kLoopMerge = 246,
  kLabel = 248,
  kReturnValue = 254,
  kSDot = 4450,
};
constexpr uint32_t kSqrt = 31, kInverseSqrt = 32, kFma = 50;           // of GLSL.std.450
constexpr uint32_t kUnroll = 1, kDontUnroll = 2, kMinIterations = 16;  // controls of a loop
constexpr uint32_t kFloat64 = 10, kDotProductOfBytes = 6018, kDotProduct = 6019, kNoContraction = 42;
constexpr size_t kHeader = 5, kBound = 3;  // words before the first instruction; which is above all ids

using Words = std::vector<uint32_t>;

// An instruction: its operands stand from 1 on.
struct Instruction {
  std::span<const uint32_t> words;
  uint32_t op() const { return words[0] & 0xffff; }
  uint32_t operator[](size_t i) const { return words[i]; }
};

template <class F> void each(const Words& words, F&& f) {
  for (size_t at = kHeader; at < words.size(); at += words[at] >> 16)
    f(Instruction{std::span(words).subspan(at, words[at] >> 16)});
}

void append(Words& words, const Instruction& i) { words.insert(words.end(), i.words.begin(), i.words.end()); }
void append(Words& words, uint32_t op, std::initializer_list<uint32_t> operands) {
  words.push_back(uint32_t(operands.size() + 1) << 16 | op);
  words.insert(words.end(), operands);
}

// With an Fma in the place of arithmetic.glsl's mad(), which alone computes in double; without anything of double; with
// loops that may be unrolled, and those unrolled that say how many turns they take at least.
Words fused(const Words& words) {
  std::unordered_set<uint32_t> doubles;  // types and constants
  uint32_t extended = 0, function = 0, mad = 0;
  each(words, [&](const Instruction& i) {
    switch (i.op()) {
      case kExtInstImport: extended = i[1]; break;
      case kTypeFloat:
        if (i[2] == 64) doubles.insert(i[1]);
        break;
      case kTypePointer:
        if (doubles.contains(i[3])) doubles.insert(i[1]);
        break;
      case kConstant:
        if (doubles.contains(i[1])) doubles.insert(i[2]);
        break;
      case kFunction: function = i[2]; break;
      case kFConvert:
        if (doubles.contains(i[1])) mad = function;
        break;
    }
  });
  Words result(words.begin(), words.begin() + kHeader);
  Words parameters;
  uint32_t number = 0;  // the type of its result
  bool inside = false;
  each(words, [&](const Instruction& i) {
    const uint32_t op = i.op();
    if (op == kCapability && i[1] == kFloat64) return;
    if ((op == kTypeFloat || op == kTypePointer) && doubles.contains(i[1])) return;
    if (op == kConstant && doubles.contains(i[2])) return;
    if (op == kFunction) inside = i[2] == mad, number = i[1];
    if (!inside) {
      if (op != kLoopMerge || !(i[3] & kDontUnroll))
        append(result, i);
      else
        append(result, op, {i[1], i[2], i[3] & kMinIterations ? kUnroll : 0});
      return;
    }
    if (op == kFunctionParameter) parameters.push_back(i[2]);
    if (op == kFunction || op == kFunctionParameter || op == kFunctionEnd) append(result, i);
    if (op != kLabel || parameters.empty()) return;
    append(result, i);
    for (uint32_t& parameter : parameters) {
      const uint32_t loaded = result[kBound]++;
      append(result, kLoad, {number, loaded, parameter});
      parameter = loaded;
    }
    const uint32_t sum = result[kBound]++;
    append(result, kExtInst, {number, sum, extended, kFma, parameters[0], parameters[1], parameters[2]});
    append(result, kReturnValue, {sum});
    parameters.clear();
  });
  return result;
}

bool names(const Instruction& extension, const char* name) {
  return std::strcmp(reinterpret_cast<const char*>(&extension.words[1]), name) == 0;
}

// Without products of four bytes: a shader that has them does not come there, by its constant.
Words without_byte_products(const Words& words) {
  Words result(words.begin(), words.begin() + kHeader);
  each(words, [&](const Instruction& i) {
    const uint32_t op = i.op();
    if (op == kCapability && (i[1] == kDotProduct || i[1] == kDotProductOfBytes)) return;
    if (op == kExtension && names(i, "SPV_KHR_integer_dot_product")) return;
    if (op == kSDot)
      append(result, kIMul, {i[1], i[2], i[3], i[4]});
    else
      append(result, i);
  });
  return result;
}

bool is_arithmetic(const Instruction& i) {
  switch (i.op()) {
    case kFAdd:
    case kFSub:
    case kFMul:
    case kFDiv:
    case kVectorTimesScalar: return true;
    case kExtInst: return i[4] == kSqrt || i[4] == kInverseSqrt || i[4] == kFma;
    default: return false;
  }
}

}  // namespace

std::vector<uint32_t> shader_words(Shader shader, const ShaderArithmetic& arithmetic) {
  const struct {
    bool wanted;
    uint32_t capability, mode;
  } controls[] = {{arithmetic.flushes_denormals, 4465, 4460},
                  {arithmetic.preserves_specials, 4466, 4461},
                  {arithmetic.rounds_to_even, 4467, 4462}};
  Words words = spirv(shader);
  if (arithmetic.fused) words = fused(words);
  if (!arithmetic.multiplies_bytes) words = without_byte_products(words);
  Words result(words.begin(), words.begin() + kHeader);
  for (const auto& c : controls)
    if (c.wanted) append(result, kCapability, {c.capability});
  bool decorated = false;
  each(words, [&](const Instruction& i) {
    if (!decorated && i.op() >= kFirstType && i.op() <= kLastType) {
      // So that a driver neither fuses nor reorders any of them.
      each(words, [&](const Instruction& any) {
        if (is_arithmetic(any)) append(result, kDecorate, {any[2], kNoContraction});
      });
      decorated = true;
    }
    append(result, i);
    if (i.op() == kEntryPoint)
      for (const auto& c : controls)
        if (c.wanted) append(result, kExecutionMode, {i[2], c.mode, 32});
  });
  return result;
}

}  // namespace anneal::vulkan
