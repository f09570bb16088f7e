// Products on the first device there is, against sums taken here: of quantised weights with codes of activations, every
// format, in every way that they are computed; and of few rows of either compute type.
#include <cmath>
#include <cstdio>
#include <cstring>

#include "../../quantization/blocks.h"
#include "open_gpu.h"
#include "products.h"
#include "staging.h"

using namespace anneal::vulkan;
using anneal::quantization::Block;
namespace quantization = anneal::quantization;

namespace {

int failures = 0;

void check(bool ok, const char* what, const char* of, int rows, const CodeKernel& kernel) {
  if (ok) return;
  printf("FAILED: %s of %s, %d rows, tile %d, bytes %d\n", what, of, rows, kernel.tile, kernel.byte_products);
  failures++;
}

struct Random {
  uint32_t state = 1;
  uint32_t next() { return (state = state * 1664525u + 1013904223u) >> 8; }
  float number() { return float(int(next() % 2001) - 1000) / 1000; }
};

// Blocks of any codes, with scales that are numbers.
std::vector<uint8_t> random_blocks(const QuantizedFormat& f, int64_t bytes, Random& random) {
  std::vector<uint8_t> blocks(size_t(bytes), 0);
  for (uint8_t& byte : blocks) byte = uint8_t(random.next());
  for (int64_t at = 0; at < bytes; at += f.bytes) {
    uint8_t* const scales = blocks.data() + at + f.scale_at;
    const float scale = 0.01f + 0.01f * std::fabs(random.number());
    const uint16_t halves[2] = {uint16_t(0x1400 + random.next() % 1024), uint16_t(0x9400 + random.next() % 1024)};
    if (f.zero == anneal::model::kOwnZeros)
      std::memcpy(scales, &scale, 4);
    else
      std::memcpy(scales, halves, f.minima ? 4 : 2);
  }
  return blocks;
}

// As activation_codes.comp leaves a group.
struct Codes {
  int8_t codes[kGroup];
  float scale, scaled_sum;
  int32_t sums[2];
};
static_assert(sizeof(Codes) == 48);

// An output, of a row's codes and a weight's blocks.
float output_of(const QuantizedFormat& f, const Codes* x, const uint8_t* blocks, int k) {
  float c = 0;
  Block block;
  const int within = std::min(f.group, kGroup);
  for (int first = 0; first < k; first += f.numbers) {
    quantization::take_apart(f.format, blocks + int64_t(first / f.numbers) * f.bytes, block);
    for (int i = 0; i < f.numbers; i += kGroup) {
      const Codes& group = x[(first + i) / kGroup];
      for (int at = 0; at < kGroup; at += within) {
        int64_t sum = 0;
        const int zero = f.zero < 0 ? int(block.zero) : f.zero;
        for (int j = at; j < at + within; j++) sum += int64_t(group.codes[j]) * (int(block.codes[i + j]) - zero);
        c = std::fma(float(sum), group.scale * quantization::group_scale(f, block, (i + at) / f.group).scale, c);
      }
      if (f.minima) c = std::fma(group.scaled_sum, quantization::group_scale(f, block, i / f.group).minimum, c);
    }
  }
  return c;
}

void test_format(const std::shared_ptr<Gpu>& gpu, const QuantizedFormat& f, std::vector<CodeKernel> kernels) {
  constexpr int kOutputs = 70, kMostRows = 150;  // no multiples of a tile's
  const int k = f.numbers == 256 ? 512 : f.numbers * (160 / f.numbers + 1);
  const GpuModel m(ModelSpec{}, {false}, gpu, nullptr, false);
  Random random;
  const int64_t row_bytes = int64_t(k / f.numbers) * f.bytes;
  const std::vector<uint8_t> blocks = random_blocks(f, kOutputs * row_bytes, random);
  const Records records(f.format);
  std::vector<char> packed(size_t(records.bytes_of(kOutputs, k)));
  for (int row = 0; row < kOutputs; row += kPanel)
    pack_records(f.format, blocks.data() + row * row_bytes, row_bytes, std::min(kPanel, kOutputs - row), k,
                 packed.data() + records.bytes_of(row, k));
  std::vector<float> rows(size_t(kMostRows) * k);
  for (float& x : rows) x = random.number();

  Staging staging(gpu);
  Memory x(gpu, int64_t(rows.size()) * 4), w(gpu, int64_t(packed.size())),
      out(gpu, int64_t(kMostRows) * kOutputs * 4, Memory::Place::readback);
  staging.write(x, 0, rows.data(), x.bytes());
  staging.write(w, 0, packed.data(), w.bytes());
  ProductInputs inputs;
  inputs.codes = Memory(gpu, kMostRows * code_bytes(k));
  Linear linear;
  linear.n = kOutputs, linear.k = k, linear.weight = w.address(), linear.format = f.format;
  const Linear* const all[] = {&linear};
  Commands commands(gpu);
  record_inputs(commands, m, all, x.address(), kMostRows, inputs);
  commands.run();
  std::vector<Codes> codes(size_t(kMostRows) * size_t(k / kGroup));
  staging.read(inputs.codes, 0, codes.data(), inputs.codes.bytes());
  std::vector<float> wanted;
  for (int row = 0; row < kMostRows; row++)
    for (int col = 0; col < kOutputs; col++)
      wanted.push_back(output_of(f, &codes[size_t(row) * size_t(k / kGroup)], blocks.data() + col * row_bytes, k));

  for (const CodeKernel& kernel : kernels)
    for (const int count : {7, 9, kMostRows}) {
      std::memset(out.mapped<char>(), 0xff, size_t(out.bytes()));
      record_code_product(commands, m, ProductKind::logits, linear, inputs,
                          {0, w.address(), 0, out.address(), 0, 0, 0, count, kOutputs, k, 0, 0, kOutputs, 0}, kernel);
      commands.run();
      check(std::memcmp(out.mapped<float>(), wanted.data(), size_t(count) * kOutputs * 4) == 0, "sums", f.name.data(),
            count, kernel);
    }
}

// Of few rows, by as many at once as there may be. What lies behind a row's last element is no number.
void test_few(const std::shared_ptr<Gpu>& gpu, ElementType type, int k) {
  constexpr int kOutputs = 70, kMostRows = 100;  // no multiples of a workgroup's
  const GpuModel m(ModelSpec{}, type, gpu, nullptr, false);
  const auto rounded = [&](float x) { return type.bf16 ? widened(narrowed(x)) : x; };
  const int ld = type.ld(k);
  Random random;
  std::vector<float> left(size_t(kMostRows) * ld, NAN), right(size_t(kOutputs) * k), begins(size_t(kMostRows) * kOutputs);
  for (int row = 0; row < kMostRows; row++)
    for (int i = 0; i < k; i++) left[size_t(row) * ld + i] = rounded(random.number());
  for (float& x : right) x = rounded(random.number());
  for (float& x : begins) x = random.number();
  // Chains of products of zero, whose sign is kept.
  for (int i = 0; i < k; i++) left[size_t(i)] = -0.0f;
  for (int col = 0; col < kOutputs; col++) begins[size_t(col)] = -0.0f;
  for (int i = 0; i < k; i++) right[size_t(i)] = std::fabs(right[size_t(i)]);

  std::vector<uint16_t> narrow;
  for (float x : left) narrow.push_back(narrowed(x));
  std::vector<char> packed(size_t(matrix_bytes(type, kOutputs, k)));
  for (int row = 0; row < kOutputs; row += kPanel)
    pack_rows(type, right.data() + size_t(row) * k, k, std::min(kPanel, kOutputs - row), k,
              packed.data() + matrix_bytes(type, row, k));
  Staging staging(gpu);
  Memory x(gpu, kMostRows * type.row_bytes(k)), w(gpu, int64_t(packed.size())), from(gpu, int64_t(begins.size()) * 4),
      out(gpu, int64_t(begins.size()) * 4, Memory::Place::readback);
  staging.write(x, 0, type.bf16 ? static_cast<const void*>(narrow.data()) : left.data(), x.bytes());
  staging.write(w, 0, packed.data(), w.bytes());
  staging.write(from, 0, begins.data(), from.bytes());
  std::vector<float> wanted;
  const int step = type.bf16 ? 2 : 1;
  for (int row = 0; row < kMostRows; row++)
    for (int col = 0; col < kOutputs; col++) {
      float c = begins[size_t(row) * kOutputs + col];
      for (int first = 0; first < k; first += step)
        for (int i = std::min(first + step, k) - 1; i >= first; i--)
          c = std::fma(left[size_t(row) * ld + i], right[size_t(col) * k + i], c);
      wanted.push_back(flushed(c));
    }
  Linear linear;
  linear.n = kOutputs, linear.k = k, linear.weight = w.address();
  Commands commands(gpu);
  for (int at_once = 1; at_once <= 64; at_once *= 2)
    for (const int count : {at_once, at_once - 1, kMostRows}) {
      if (count < 1) continue;
      std::memset(out.mapped<char>(), 0xff, size_t(out.bytes()));
      record_few(commands, m, ProductKind::residual, linear,
                 {x.address(), w.address(), 0, out.address(), from.address(), 0, 0, count, kOutputs, k,
                  type.granules(k), 0, kOutputs, 0},
                 at_once);
      commands.run();
      const bool same = std::memcmp(out.mapped<float>(), wanted.data(), size_t(count) * kOutputs * 4) == 0;
      const bool ends = count == kMostRows || std::isnan(out.mapped<float>()[size_t(count) * kOutputs]);
      if (same && ends) continue;
      printf("FAILED: %d rows of %d, %d at once, %s\n", count, k, at_once, type.bf16 ? "bfloat16" : "float32");
      failures++;
    }
}

}  // namespace

int main() {
  if (Gpu::list().empty()) {
    printf("no Vulkan device: nothing is tried\nok\n");
    return 0;
  }
  const auto gpu = open_gpu(0);
  const bool has_bytes = gpu->facts().byte_products != ByteProducts::none;
  if (!has_bytes) printf("no products of four bytes: they are not tried\n");
  std::vector<CodeKernel> others = {{64, false}};
  if (has_bytes) others.insert(others.end(), {{0, true}, {32, true}, {64, true}});
  for (const QuantizedFormat& f : anneal::model::kQuantizedFormats) {
    test_format(gpu, f, {{0, false}, {32, false}});
    // Codes of 4 bits with minima, and of 8 with two scales in 32 numbers.
    if (f.format == TensorFormat::q4_k || f.format == TensorFormat::q6_k) test_format(gpu, f, others);
  }
  // Less than a granule, no multiple of one, a stretch that is staged at once, and several of them.
  for (const bool bf16 : {false, true})
    for (const int k : {3, 77, 256, 1042}) test_few(gpu, {bf16}, k);
  for (const int rows : {1, 16, 17, 4096})
    check((code_kernel(*gpu, rows).tile > 0) == (rows > 16), "the choice", "a kernel", rows, code_kernel(*gpu, rows));
  printf("%s\n", failures ? "failed" : "ok");
  return failures != 0;
}
