// Products on the first device there is, against sums taken here: of quantised weights with codes of activations, every
// format, on cooperative matrices, of few rows of either compute type, and of many by every tile, in every way that
// they are computed.
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
    if (f.looked_up) {
      *scales = uint8_t(118 + random.next() % 4);
      continue;
    }
    const float scale = 0.01f + 0.01f * std::fabs(random.number());
    const uint16_t halves[2] = {uint16_t(0x1400 + random.next() % 1024), uint16_t(0x9400 + random.next() % 1024)};
    if (f.zero == anneal::model::kOwnZeros)
      std::memcpy(scales, &scale, 4);
    else
      std::memcpy(scales, halves, f.minima ? 4 : 2);
  }
  return blocks;
}

// A few blocks of the format wide.
int width_of(const QuantizedFormat& f) { return f.numbers == 256 ? 512 : f.numbers * (160 / f.numbers + 1); }

// A matrix W[n][k] of such blocks, and the records that a device has of it.
struct BlockMatrix {
  int64_t row_bytes;
  std::vector<uint8_t> blocks;
  std::vector<char> packed;

  BlockMatrix(const QuantizedFormat& f, int n, int k, Random& random)
      : row_bytes(int64_t(k / f.numbers) * f.bytes), blocks(random_blocks(f, n * row_bytes, random)) {
    const Records records(f.format);
    packed.resize(size_t(records.bytes_of(n, k)));
    for (int first = 0; first < n; first += kPanel)
      pack_records(f.format, row(first), row_bytes, std::min(kPanel, n - first), k,
                   packed.data() + records.bytes_of(first, k));
  }
  const uint8_t* row(int i) const { return blocks.data() + i * row_bytes; }
};

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
  const int k = width_of(f);
  const GpuModel m(ModelSpec{}, {false}, gpu, nullptr, false);
  Random random;
  const BlockMatrix blocks(f, kOutputs, k, random);
  std::vector<float> rows(size_t(kMostRows) * k);
  for (float& x : rows) x = random.number();

  Staging staging(gpu);
  Memory x(gpu, int64_t(rows.size()) * 4), w(gpu, int64_t(blocks.packed.size())),
      out(gpu, int64_t(kMostRows) * kOutputs * 4, Memory::Place::readback);
  staging.write(x, 0, rows.data(), x.bytes());
  staging.write(w, 0, blocks.packed.data(), w.bytes());
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
      wanted.push_back(output_of(f, &codes[size_t(row) * size_t(k / kGroup)], blocks.row(col), k));

  for (const CodeKernel& kernel : kernels)
    for (const int count : {7, 9, kMostRows}) {
      std::memset(out.mapped<char>(), 0xff, size_t(out.bytes()));
      record_code_product(commands, m, ProductKind::logits, linear, inputs.codes,
                          {0, w.address(), 0, out.address(), 0, 0, 0, count, kOutputs, k, 0, 0, kOutputs, 0}, kernel);
      commands.run();
      check(std::memcmp(out.mapped<float>(), wanted.data(), size_t(count) * kOutputs * 4) == 0, "sums", f.name.data(),
            count, kernel);
    }
}

// Of few rows, by as many at once as there may be. What lies behind a row's last element is no number.
void test_few(const std::shared_ptr<Gpu>& gpu, ElementType type, int k, int most_rows) {
  constexpr int kOutputs = 70;  // no multiple of a workgroup's
  const GpuModel m(ModelSpec{}, type, gpu, nullptr, false);
  const auto rounded = [&](float x) { return type.bf16 ? widened(narrowed(x)) : x; };
  const int ld = type.ld(k);
  Random random;
  std::vector<float> left(size_t(most_rows) * ld, NAN), right(size_t(kOutputs) * k),
      begins(size_t(most_rows) * kOutputs);
  for (int row = 0; row < most_rows; row++)
    for (int i = 0; i < k; i++) left[size_t(row) * ld + i] = rounded(random.number());
  for (float& x : right) x = rounded(random.number());
  for (float& x : begins) x = random.number();
  // Chains of products of zero, whose sign is kept.
  if (most_rows > 1)
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
  Memory x(gpu, most_rows * type.row_bytes(k)), w(gpu, int64_t(packed.size())), from(gpu, int64_t(begins.size()) * 4),
      out(gpu, int64_t(begins.size()) * 4, Memory::Place::readback);
  staging.write(x, 0, type.bf16 ? static_cast<const void*>(narrow.data()) : left.data(), x.bytes());
  staging.write(w, 0, packed.data(), w.bytes());
  staging.write(from, 0, begins.data(), from.bytes());
  std::vector<float> wanted;
  const int step = type.bf16 ? 2 : 1;
  for (int row = 0; row < most_rows; row++)
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
  for (int at_once = 1; at_once <= std::min(64, most_rows); at_once *= 2)
    for (const int count : {at_once, at_once - 1, most_rows}) {
      if (count < 1) continue;
      std::memset(out.mapped<char>(), 0xff, size_t(out.bytes()));
      record_few(commands, m, ProductKind::residual, linear,
                 {x.address(), w.address(), 0, out.address(), from.address(), 0, 0, count, kOutputs, k,
                  type.granules(k), 0, kOutputs, 0},
                 at_once);
      commands.run();
      const bool same = std::memcmp(out.mapped<float>(), wanted.data(), size_t(count) * kOutputs * 4) == 0;
      const bool ends = count == most_rows || std::isnan(out.mapped<float>()[size_t(count) * kOutputs]);
      if (same && ends) continue;
      printf("FAILED: %d rows of %d, %d at once, %s\n", count, k, at_once, type.bf16 ? "bfloat16" : "float32");
      failures++;
    }
}

// A matrix of the compute type, whose rows are padded with what is no number.
struct Matrix {
  int rows, cols;
  std::vector<float> values;
  std::vector<char> packed;
  Matrix(ElementType t, int rows, int cols, Random& random)
      : rows(rows), cols(cols), values(size_t(rows) * cols), packed(size_t(rows * t.row_bytes(cols)), char(0xff)) {
    for (float& x : values) x = widened(narrowed(random.number()));
    for (int row = 0; row < rows; row++)
      for (int col = 0; col < cols; col++) {
        const float x = at(row, col);
        const uint16_t half = narrowed(x);
        char* const to = packed.data() + row * t.row_bytes(cols) + col * t.bytes();
        std::memcpy(to, t.bf16 ? static_cast<const void*>(&half) : &x, size_t(t.bytes()));
      }
  }
  float at(int row, int col) const { return values[size_t(row) * size_t(cols) + size_t(col)]; }
};

// c and the products of `count` pairs of numbers: in bfloat16, two by two, the later first.
template <class F> float chain(ElementType t, float c, int count, F&& pair) {
  const int together = t.bf16 ? 2 : 1;
  for (int first = 0; first < count; first += together)
    for (int i = std::min(first + together, count) - 1; i >= first; i--) {
      const auto [a, b] = pair(i);
      c = std::fma(a, b, c);
    }
  return c;
}

void test_tiles(const std::shared_ptr<Gpu>& gpu, ElementType t) {
  constexpr int kRows = 150, kOutputs = 139, kInputs = 203;  // no multiples of a tile's, nor of a piece's
  const GpuModel m(ModelSpec{}, t, gpu, nullptr, false);
  Random random;
  const Matrix x(t, kRows, kInputs, random), dy(t, kRows, kOutputs, random), w(t, kOutputs, kInputs, random);
  std::vector<char> packed(size_t(matrix_bytes(t, kOutputs, kInputs)));
  for (int row = 0; row < kOutputs; row += kPanel)
    pack_rows(t, w.values.data() + row * kInputs, kInputs, std::min(kPanel, kOutputs - row), kInputs,
              packed.data() + matrix_bytes(t, row, kInputs));
  Staging staging(gpu);
  Memory xs(gpu, int64_t(x.packed.size())), ds(gpu, int64_t(dy.packed.size())), ws(gpu, int64_t(packed.size())),
      out(gpu, int64_t(kRows) * kInputs * 4, Memory::Place::readback);
  staging.write(xs, 0, x.packed.data(), xs.bytes());
  staging.write(ds, 0, dy.packed.data(), ds.bytes());
  staging.write(ws, 0, packed.data(), ws.bytes());
  Linear linear;
  linear.n = kOutputs, linear.k = kInputs, linear.weight = ws.address();
  Commands commands(gpu);

  constexpr float kBefore = 0.25f;
  const auto try_one = [&](const char* what, const Tile& tile, int rows, int cols, auto&& record, auto&& wanted) {
    for (int i = 0; i < rows * cols; i++) out.mapped<float>()[i] = kBefore;
    record();
    commands.run();
    int wrong = 0;
    for (int row = 0; row < rows; row++)
      for (int col = 0; col < cols; col++) wrong += out.mapped<float>()[row * cols + col] != wanted(row, col);
    if (wrong == 0) return;
    printf("FAILED: %d of %s, tiles of %d by %d, bfloat16 %d\n", wrong, what, tile.rows, tile.cols, t.bf16);
    failures++;
  };
  for (const Tile& tile : kTiles) {
    try_one(
        "products", tile, kRows, kOutputs,
        [&] {
          record_tiled_product(commands, m, ProductKind::logits, linear,
                               {xs.address(), ws.address(), 0, out.address(), 0, 0, 0, kRows, kOutputs, kInputs,
                                t.granules(kInputs), 0, kOutputs, 0},
                               tile);
        },
        [&](int row, int col) {
          return chain(t, 0, kInputs, [&](int i) { return std::pair(x.at(row, i), w.at(col, i)); });
        });
    for (const bool accumulate : {false, true})
      try_one(
          "transposed products", tile, kRows, kInputs,
          [&] {
            record_transposed(commands, m, linear,
                              {ds.address(), ws.address(), out.address(), kRows, 0, kOutputs, kInputs,
                               t.granules(kOutputs), kInputs, accumulate},
                              tile);
          },
          [&](int row, int col) {
            return chain(t, accumulate ? kBefore : 0, kOutputs,
                         [&](int i) { return std::pair(dy.at(row, i), w.at(i, col)); });
          });
    constexpr int kFirst = 3, kTokens = kRows - 5;
    try_one(
        "sums over tokens", tile, kOutputs, kInputs,
        [&] {
          record_token_sum(commands, m,
                           {ds.address(), xs.address(), out.address(), kFirst, kTokens, kOutputs, kInputs,
                            t.ld(kOutputs), t.ld(kInputs), kInputs},
                           tile);
        },
        [&](int row, int col) {
          return chain(t, kBefore, kTokens,
                       [&](int i) { return std::pair(dy.at(kFirst + i, row), x.at(kFirst + i, col)); });
        });
  }
}

// As cpu/kernels/transposed_codes.h has them: codes of the numbers that share a scale, and that scale. `fused`: of
// weights.
float codes_of(const float* numbers, int count, bool fused, int* codes) {
  constexpr float kToNearest = 12582912;
  float most = 0;
  for (int i = 0; i < count; i++) most = std::max(most, std::fabs(numbers[i]));
  const bool none = most < 1e-35f;
  const float inverse = none ? 0 : 127 / most;
  for (int i = 0; i < count; i++) {
    const float product = numbers[i] * inverse;
    codes[i] = int((fused ? std::fma(numbers[i], inverse, kToNearest) : product + kToNearest) - kToNearest);
  }
  return none ? 0 : most / 127;
}

// Products with the transpose of quantised weights, by codes of both.
void test_back_codes(const std::shared_ptr<Gpu>& gpu, const QuantizedFormat& f) {
  constexpr int kOutputs = 171, kMostRows = 40;  // no multiples of a tile's, nor of a group's
  const int k = width_of(f);
  const ElementType type{true};
  const GpuModel m(ModelSpec{}, type, gpu, nullptr, false);
  Random random;
  const BlockMatrix blocks(f, kOutputs, k, random);
  const Matrix dy(type, kMostRows, kOutputs, random);
  Staging staging(gpu);
  Memory ds(gpu, int64_t(dy.packed.size())), w(gpu, int64_t(blocks.packed.size())),
      out(gpu, int64_t(kMostRows) * k * 4, Memory::Place::readback);
  staging.write(ds, 0, dy.packed.data(), ds.bytes());
  staging.write(w, 0, blocks.packed.data(), w.bytes());
  Linear linear;
  linear.n = kOutputs, linear.k = k, linear.weight = w.address(), linear.format = f.format;
  const Memory codes(gpu, kMostRows * back_code_bytes(m, linear)), transposed(gpu, transposed_bytes(m, linear));

  std::vector<float> values(size_t(kOutputs) * size_t(k)), wanted(size_t(kMostRows) * size_t(k));
  for (int row = 0; row < kOutputs; row++)
    quantization::dequantize_row(f.format, blocks.row(row), k, &values[size_t(row) * size_t(k)]);
  const auto wanted_from = [&](float begin) {
    std::fill(wanted.begin(), wanted.end(), begin);
    for (int from = 0; from < kOutputs; from += kGroup) {
      const int count = std::min(kGroup, kOutputs - from);
      std::vector<int> left(size_t(kMostRows * kGroup));
      float scales[kMostRows];
      for (int row = 0; row < kMostRows; row++)
        scales[row] = codes_of(&dy.values[size_t(row * kOutputs + from)], count, false, &left[size_t(row * kGroup)]);
      for (int col = 0; col < k; col++) {
        float column[kGroup];
        int right[kGroup];
        for (int i = 0; i < count; i++) column[i] = values[size_t(from + i) * size_t(k) + size_t(col)];
        const float scale = codes_of(column, count, true, right);
        for (int row = 0; row < kMostRows; row++) {
          int sum = 0;
          for (int i = 0; i < count; i++) sum += left[size_t(row * kGroup + i)] * right[i];
          float& c = wanted[size_t(row) * size_t(k) + size_t(col)];
          c = std::fma(float(sum), scales[row] * scale, c);
        }
      }
    }
  };
  constexpr float kBefore = 0.25f;
  Commands commands(gpu);
  for (const bool accumulate : {false, true}) {
    wanted_from(accumulate ? kBefore : 0);
    for (const int at_once : {32, 96, 192})
      for (const int rows : {3, kMostRows}) {
        std::fill_n(out.mapped<float>(), size_t(kMostRows) * size_t(k), kBefore);
        record_code_back_product(commands, m, linear, ds.address(), rows, out.address(), accumulate,
                                 {codes, codes, transposed}, at_once);
        commands.run();
        if (!std::memcmp(out.mapped<float>(), wanted.data(), size_t(rows) * size_t(k) * 4)) continue;
        printf("FAILED: transposed codes of %s, %d rows, %d outputs at once\n", f.name.data(), rows, at_once);
        failures++;
      }
  }
}

// Products on cooperative matrices: all tiles with the same bits, near sums taken here.
void test_matrices(const std::shared_ptr<Gpu>& gpu, int k, int n) {
  constexpr int kMostRows = 150;
  const GpuModel m(ModelSpec{}, {true}, gpu, nullptr, true);
  Random random;
  std::vector<float> weights(size_t(n) * k), wide(size_t(kMostRows) * std::max(k, n));
  for (float& w : weights) w = widened(narrowed(random.number()));
  for (float& x : wide) x = widened(narrowed(random.number()));
  std::vector<char> packed(size_t(matrix_bytes(m.type, n, k)));
  pack_rows(m.type, weights.data(), k, n, k, packed.data());
  Staging staging(gpu);
  Memory x(gpu, int64_t(kMostRows) * m.type.row_bytes(std::max(k, n))), w(gpu, int64_t(packed.size())),
      out(gpu, int64_t(kMostRows) * std::max(k, n) * 4, Memory::Place::readback);
  staging.write(w, 0, packed.data(), w.bytes());
  ProductInputs inputs;
  inputs.halves = Memory(gpu, kMostRows * half_bytes(std::max(k, n)));
  Linear linear;
  linear.n = n, linear.k = k, linear.weight = w.address();
  const Linear* const all[] = {&linear};
  Commands commands(gpu);
  for (const bool transposed : {false, true}) {
    const int inner = transposed ? n : k, outputs = transposed ? k : n, ld = m.type.ld(inner);
    std::vector<uint16_t> rows(size_t(kMostRows) * ld, 0);
    for (int r = 0; r < kMostRows; r++)
      for (int i = 0; i < inner; i++) rows[size_t(r) * ld + i] = narrowed(wide[size_t(r) * inner + i]);
    staging.write(x, 0, rows.data(), int64_t(rows.size()) * 2);
    std::vector<float> first;
    for (const MatrixTile& tile : matrix_tiles(*gpu))
      for (const int count : {kMostRows, 1, 17}) {
        if (transposed && tile.is_few()) continue;
        std::memset(out.mapped<char>(), 0xff, size_t(out.bytes()));
        if (transposed) {
          record_back_product(commands, m, linear, x.address(), count, out.address(), false,
                              {inputs.halves, inputs.codes, inputs.codes});
          commands.barrier();
          record_matrix_back_product(commands, m, linear, inputs.halves, count, out.address(), false, tile);
        } else {
          record_inputs(commands, m, all, x.address(), count, inputs);
          record_matrix_product(commands, m, ProductKind::logits, linear, inputs,
                                {0, w.address(), 0, out.address(), 0, 0, 0, count, n, k, 0, 0, n, 0}, tile);
        }
        commands.run();
        const float* found = out.mapped<float>();
        if (first.empty()) first.assign(found, found + size_t(kMostRows) * outputs);
        int wrong = 0, other = 0;
        for (int r = 0; r < count; r++)
          for (int c = 0; c < outputs; c++) {
            double sum = 0;
            for (int i = 0; i < inner; i++)
              sum += double(wide[size_t(r) * inner + i]) *
                     double(weights[transposed ? size_t(i) * k + c : size_t(c) * k + i]);
            wrong += !(std::fabs(sum - double(found[size_t(r) * outputs + c])) < 1e-4 * inner);
            other += std::memcmp(&found[size_t(r) * outputs + c], &first[size_t(r) * outputs + c], 4) != 0;
          }
        if (wrong + other == 0) continue;
        printf("FAILED: [%d x %d x %d] of tiles %d by %d, %d ahead%s: %d wrong, %d with other bits\n", count, n, k,
               tile.rows, tile.cols, tile.ahead, transposed ? ", transposed" : "", wrong, other);
        failures++;
      }
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
  if (gpu->facts().matrices)
    for (const auto& [k, n] : {std::pair{600, 70}, {200, 300}, {1024, 33}}) test_matrices(gpu, k, n);
  else
    printf("no cooperative matrices: they are not tried\n");
  for (const QuantizedFormat& f : anneal::model::kQuantizedFormats) {
    if (is_wide(f.format)) continue;  // the processor's alone
    test_format(gpu, f, {{0, false}, {32, false}});
    test_back_codes(gpu, f);
    // Codes of 4 bits with minima, and of 8 with two scales in 32 numbers.
    if (f.format == TensorFormat::q4_k || f.format == TensorFormat::q6_k) test_format(gpu, f, others);
  }
  // Less than a granule, no multiple of one, a stretch that is staged at once, and several of them.
  for (const bool bf16 : {false, true})
    for (const int k : {3, 77, 256, 1042}) test_few(gpu, {bf16}, k, 100);
  // About as many as turns of loops suffice for where these end.
  test_few(gpu, {true}, 50000, 1), test_few(gpu, {false}, 28000, 1);
  for (const int rows : {1, 16, 17, 4096})
    check((code_kernel(*gpu, rows).tile > 0) == (rows > 16), "the choice", "a kernel", rows, code_kernel(*gpu, rows));
  for (const bool bf16 : {false, true}) test_tiles(gpu, {bf16});
  printf("%s\n", failures ? "failed" : "ok");
  return failures != 0;
}
