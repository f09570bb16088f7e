// Products with quantised weights: against sums in double precision over the numbers that the blocks stand for, and bit
// for bit on every instruction set, for every row count and split. What is dequantised has the bits of the blocks.
#include "../../../quantization/blocks.h"
#include "kernels_fixture.h"
#include "quantized_panels.h"

#include <fstream>

namespace anneal::cpu::test {
namespace {

using model::TensorFormat;

TensorFormat format_of(int index) { return model::kQuantizedFormats[index].format; }
std::string name_of(int index) { return std::string(model::kQuantizedFormats[index].name); }
constexpr int kGgufFormats = quantized_index(TensorFormat::int4_32);  // the first

// Blocks of any bits but those of scales that are no numbers, the panels made of them, and the numbers they stand for.
struct Weights {
  TensorFormat format;
  int n, k;
  Floats values;
  Block panels;

  Weights(TensorFormat f, int outputs, int inputs)
      : format(f),
        n(outputs),
        k(inputs),
        values(size_t(n) * k),
        panels(size_t(panels_of(n)) * quantized_panel_bytes_of(f, k) + 64) {
    const int64_t bytes = quantization::row_bytes(f, k);
    std::vector<uint8_t> rows(size_t(n) * bytes);
    const model::QuantizedFormat& known = model::quantized_format(f);
    for (uint8_t& byte : rows) byte = uint8_t(random_bits());
    // Sums as large as they get, and as small: codes of zeros have scales other than that.
    std::fill_n(rows.begin(), bytes, uint8_t(0xff));
    if (n > 1) {
      std::fill_n(rows.begin() + bytes, bytes, uint8_t(0));
      for (int64_t at = bytes; known.groups() > 1 && at < 2 * bytes; at += known.bytes)
        for (int i = 0; i < 16; i++) rows[size_t(at + std::max(0, known.scale_at - 16) + i)] = uint8_t(random_bits());
    }
    for (size_t block = 0; block < rows.size(); block += size_t(known.bytes)) {
      uint8_t* const at = &rows[block + size_t(known.scale_at)];
      if (known.zero == model::kOwnZeros) {
        const float scale = std::ldexp(float(int(random_bits() % 511) - 255), -12 - int(random_bits() % 3));
        std::memcpy(at, &scale, 4);
        at[4] &= uint8_t((1 << known.bits) - 1);
        continue;
      }
      if (model::is_wide(f)) {
        *at = uint8_t(random_bits() % 8 ? 108 + random_bits() % 12 : random_bits() % 2);
        for (int i = 0; i < known.numbers; i++) {
          const int16_t code =
              int16_t(int(random_bits() % (2 * quantization::kMostWord + 1)) - quantization::kMostWord);
          std::memcpy(at + 1 + 2 * i, &code, 2);
        }
        continue;
      }
      if (known.looked_up) {
        *at = uint8_t(random_bits() % 8 ? 112 + random_bits() % 12 : random_bits() % 2);
        continue;
      }
      for (int i = 0; i < (known.minima ? 2 : 1); i++) {
        // Small ones without an exponent, and any sign.
        const uint16_t half = uint16_t(random_bits() % 8 ? (random_bits() & 0x83ff) | (random_bits() % 12 << 10)
                                                         : random_bits() & 0x83ff);
        std::memcpy(at + 2 * i, &half, 2);
      }
    }
    for (int row = 0; row < n; row++)
      quantization::dequantize_row(f, &rows[size_t(row) * bytes], k, &values[size_t(row) * k]);
    for (int p = 0; p < panels_of(n); p++)
      pack_quantized(f, &rows[size_t(p) * kLanes * bytes], bytes, std::min(kLanes, n - p * kLanes), k, panel(p));
  }
  uint8_t* panel(int p) const { return (uint8_t*)panels.at + p * quantized_panel_bytes_of(format, k); }
};

// Rows of activations as codes for weights of a format.
struct Codes {
  TensorFormat format;
  int64_t ld;
  std::vector<char> bytes;

  Codes(const Kernels& k, TensorFormat f, const Floats& x, int rows, int cols)
      : format(f), ld(code_row_bytes(f, cols)), bytes(size_t(rows * ld)) {
    Block left = rounded(k, x, rows, cols, cols);
    k.quantized[quantized_index(f)].quantize_rows(left.at, cols, rows, cols, bytes.data(), ld);
  }
  const char* row(int r) const { return &bytes[size_t(r * ld)]; }
  // Of the numbers that it stands for, number i of row r.
  double operator()(int r, int i) const {
    const auto number = [&](const auto* groups, int group) {
      const auto& g = groups[i / group];
      return double(g.scale) * g.codes[i % group];
    };
    return model::is_wide(format) ? number((const WideActivationGroup*)row(r), kWideGroup)
                                  : number((const ActivationGroup*)row(r), kCodeGroup);
  }
};

void test_activations(DType type) {
  const int rows = 40, cols = 320;
  Floats x = kept(type, normals(size_t(rows) * cols, 3));
  for (int i = 0; i < cols; i++) {
    x[i] = 0;
    x[cols + i] = 1e-37f * normal();
    x[2 * cols + i] = 1e38f * std::tanh(normal());
    x[3 * cols + i] = (i % 127 - 63) * (i % 32 == 5 ? 63 : 0.5f);  // ties
  }
  x = kept(type, x);
  x[4 * cols + 7] = INFINITY, x[4 * cols + 40] = NAN;
  const Floats got = same_everywhere(type, "activations as codes", [&](const Kernels& k) {
    Floats out;
    const Codes codes(k, TensorFormat::q8_0, x, rows, cols);
    const ActivationGroup* const groups = (const ActivationGroup*)codes.bytes.data();
    for (int i = 0; i < rows * cols / kCodeGroup; i++) {
      const ActivationGroup& g = groups[i];
      out.insert(out.end(), {g.scale, g.sum});
      for (int8_t code : g.codes) out.push_back(code);
    }
    return out;
  });
  bool right = true;
  for (int group = 0; group < rows * cols / 32; group++) {
    const float *g = &got[size_t(group) * 34], *values = &x[size_t(group) * 32];
    const bool finite = std::all_of(values, values + 32, [](float v) { return std::isfinite(v); });
    float most = 0;
    for (int i = 0; i < 32; i++) most = std::max(most, std::fabs(values[i]));
    if (!finite) {
      right &= std::isnan(g[0]) && std::isnan(g[1]);
      continue;
    }
    right &= g[0] == (most < 1e-35f ? 0 : most / 127);
    int sum = 0;
    for (int i = 0; i < 32; i++) {
      right &= std::fabs(double(g[0]) * g[2 + i] - values[i]) <= std::max(0.5001 * g[0], 1e-35) &&
               std::fabs(g[2 + i]) <= 127;
      sum += int(g[2 + i]);
    }
    right &= g[1] == g[0] * float(sum);
  }
  expect(right, std::string("activations as codes of ") + name(type));
}

// Rows that end within a group are those with zeros behind.
void test_short_groups(DType type) {
  const int rows = 9, whole = 96;
  for (int cols : {1, 16, 37, 64, 90}) {
    const Floats x = kept(type, normals(size_t(rows) * cols));
    Floats filled(size_t(rows) * whole);
    for (int r = 0; r < rows; r++) std::copy_n(&x[size_t(r) * cols], cols, &filled[size_t(r) * whole]);
    for (const Kernels* k : sets(type)) {
      const Codes got(*k, TensorFormat::q8_0, x, rows, cols), wanted(*k, TensorFormat::q8_0, filled, rows, whole);
      bool same = true;
      for (int r = 0; r < rows; r++) same &= !std::memcmp(got.row(r), wanted.row(r), size_t(got.ld));
      expect(same, "activations as codes, " + std::to_string(cols) + " of them on " + isa_name(k->isa));
    }
  }
}

// Of 13 bits, also of rows that end within a group.
void test_wide_activations(DType type) {
  const int rows = 9;
  for (int cols : {1, 16, 37, 64, 130, 320}) {
    Floats x = kept(type, normals(size_t(rows) * cols, 3));
    for (int i = 0; i < cols; i++) {
      x[i] = 0;
      x[cols + i] = 1e-37f * normal();
      x[2 * cols + i] = 1e38f * std::tanh(normal());
      x[3 * cols + i] = i % 2 ? 4095 : float(i % 100) + 0.5f;  // ties
    }
    x = kept(type, x);
    x[4 * cols] = NAN, x[5 * cols + cols - 1] = -INFINITY;
    const int groups = (cols + kWideGroup - 1) / kWideGroup, each = kWideGroup + 1;
    const Floats got = same_everywhere(type, "activations as words", [&](const Kernels& k) {
      Floats out;
      const Codes codes(k, TensorFormat::int16_64, x, rows, cols);
      for (int g = 0; g < rows * groups; g++) {
        const WideActivationGroup& group = ((const WideActivationGroup*)codes.bytes.data())[g];
        out.push_back(group.scale);
        out.insert(out.end(), group.codes, group.codes + kWideGroup);
      }
      return out;
    });
    bool right = true;
    for (int r = 0; r < rows; r++)
      for (int g = 0; g < groups; g++) {
        const float *codes = &got[size_t(r * groups + g) * each + 1], scale = codes[-1];
        const int from = g * kWideGroup, count = std::min(kWideGroup, cols - from);
        const float* values = &x[size_t(r) * cols + from];
        float most = 0;
        for (int i = 0; i < count; i++) most = std::max(most, std::fabs(values[i]));
        if (!std::all_of(values, values + count, [](float v) { return std::isfinite(v); })) {
          right &= std::isnan(scale);
          continue;
        }
        right &= scale == (most < 1e-35f ? 0 : most / kMostWideCode);
        for (int i = 0; i < kWideGroup; i++)
          right &= std::fabs(codes[i]) <= kMostWideCode &&
                   (i < count ? std::fabs(double(scale) * codes[i] - values[i]) <= std::max(0.501 * scale, 1e-35)
                              : codes[i] == 0);
      }
    expect(right, "activations as words of " + std::string(name(type)) + ", " + std::to_string(cols));
  }
}

// By how much a code of W^T errs at most.
struct TransposeErrors {
  int rows, cols, row_stride;  // of what shares a scale
  Floats most;                 // [n / rows][k / cols]

  explicit TransposeErrors(const Weights& w)
      : rows(model::is_wide(w.format) ? kWideGroup : kCodeGroup),
        cols(model::is_wide(w.format) ? kWideGroup : 1),
        row_stride((w.k + cols - 1) / cols),
        most(size_t(row_stride) * size_t((w.n + rows - 1) / rows)) {
    for (int j = 0; j < w.n; j++)
      for (int i = 0; i < w.k; i++) {
        float& m = most[size_t(j / rows * row_stride + i / cols)];
        m = std::max(m, std::fabs(w.values[size_t(j) * w.k + i]));
      }
    for (float& m : most) m /= model::is_wide(w.format) ? 4095 : 2 * 127;
  }
  double operator()(int j, int i) const { return most[size_t(j / rows * row_stride + i / cols)]; }
};

// Panels of W^T of any columns and rows, with what is missing to a group; their product with gradients.
void test_transposes(int index, DType type, int n, int k) {
  const TensorFormat format = format_of(index);
  const Weights w(format, n, k);
  const TransposeErrors step(w);
  const int rows = 21;
  const Floats dy = kept(type, normals(size_t(rows) * n));
  for (auto [col, cols] : {std::pair{0, k}, {16, k - 16}, {32, std::min(48, k - 32)}})
    for (int n0 = 0; n0 < n && cols > 0; n0 += 64) {
      const int count = n - n0, width = int(panels_of(cols)) * kLanes;
      Floats part(size_t(rows) * count), c0 = normals(size_t(rows) * width);
      for (int r = 0; r < rows; r++) std::copy_n(&dy[size_t(r) * n + n0], count, &part[size_t(r) * count]);
      const Codes codes(*kernels(Isa::portable, type), format, part, rows, count);
      const std::string what = name_of(index) + " transposed, n=" + std::to_string(n) + " k=" + std::to_string(k) +
                               " from " + std::to_string(n0) + ", " + std::to_string(col);
      const Floats got = same_everywhere(type, what, [&](const Kernels& kernel) {
        const QuantizedKernels& q = kernel.of(format);
        Block panels(size_t(panels_of(cols) * quantized_back_panel_bytes(format, count)) + 64);
        q.transpose_codes(w.panels.at, k, col, cols, n0, count, panels.at);
        const Codes own(kernel, format, part, rows, count);
        Floats c(size_t(rows) * width), more = c0;
        q.back_product(own.bytes.data(), own.ld, rows, panels.at, count, int(panels_of(cols)), c.data(), width, false);
        q.back_product(own.bytes.data(), own.ld, rows, panels.at, count, int(panels_of(cols)), more.data(), width,
                       true);
        bool same = true;
        for (int m : {1, 2, 3, 7, 13}) {
          Floats few(size_t(m) * width);
          q.back_product(own.row(rows - m), own.ld, m, panels.at, count, int(panels_of(cols)), few.data(), width,
                         false);
          same &= !std::memcmp(few.data(), &c[size_t(rows - m) * width], few.size() * 4);
        }
        expect(same, what + ": row counts on " + isa_name(kernel.isa));
        c.insert(c.end(), more.begin(), more.end());
        return c;
      });
      bool near_enough = true;
      for (int r = 0; r < rows; r++)
        for (int i = 0; i < cols; i++) {
          double want = 0, unit = 0, off = 0;
          for (int j = 0; j < count; j++) {
            const double x = codes(r, j), product = x * w.values[size_t(n0 + j) * k + col + i];
            want += product, unit += product * product, off += std::pow(x * step(n0 + j, col + i), 2);
          }
          const size_t at = size_t(r) * width + i;
          const double room = 3 * std::sqrt(off) + 2e-6 * std::sqrt(unit);
          near_enough &= std::fabs(got[at] - want) <= room;
          near_enough &= std::fabs(got[c0.size() + at] - want - c0[at]) <= room + 2e-6 * std::fabs(c0[at]);
        }
      expect(near_enough, what + " on " + name(type));
    }
}

void test_format(int index, DType type, int n, int k) {
  const TensorFormat format = format_of(index);
  const int rows = 40, width = int(panels_of(n)) * kLanes;
  const Weights w(format, n, k);
  Floats x = normals(size_t(rows) * k);
  std::fill_n(x.begin(), k, 3.0f), std::fill_n(x.begin() + k, k, -3.0f);
  x = kept(type, x);
  const Floats c0 = normals(size_t(rows) * width);
  const std::string what = name_of(index) + " n=" + std::to_string(n) + " k=" + std::to_string(k);
  const auto of = [&](const Kernels& kernel) -> const QuantizedKernels& { return kernel.quantized[index]; };

  const Floats all = same_everywhere(type, what + ": product", [&](const Kernels& kernel) {
    const Codes a(kernel, format, x, rows, k);
    Floats c(size_t(rows) * width), d = c0;
    of(kernel).product(a.bytes.data(), a.ld, rows, w.panels.at, k, int(panels_of(n)), c.data(), width, false);
    of(kernel).product(a.bytes.data(), a.ld, rows, w.panels.at, k, int(panels_of(n)), d.data(), width, true);
    c.insert(c.end(), d.begin(), d.end());
    return c;
  });
  const Codes codes(*kernels(Isa::portable, type), format, x, rows, k);
  std::vector<double> want(2 * size_t(rows) * width);
  double unit = 1e-22;  // of numbers so small that two scales may have the product 0
  for (int r = 0; r < rows; r++)
    for (int j = 0; j < n; j++) {
      double sum = 0, size = 0;
      for (int i = 0; i < k; i++) {
        const double product = codes(r, i) * w.values[size_t(j) * k + i];
        sum += product, size += product * product;
      }
      want[size_t(r) * width + j] = sum, unit = std::max(unit, std::sqrt(size));
    }
  for (size_t i = 0; i < c0.size(); i++) want[c0.size() + i] = want[i] + c0[i];
  near(what + ": product", all, want, 2e-6, unit);

  for (const Kernels* kernel : sets(type)) {
    const Codes a(*kernel, format, x, rows, k);
    bool same = true;
    for (int m : {1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 14, 16, 40}) {
      const int first = int(random_bits() % (rows - m + 1));
      for (int p = 0; p < panels_of(n);) {
        const int count = std::min<int>(1 + int(random_bits() % 5), int(panels_of(n)) - p);
        Floats part(size_t(m) * count * kLanes);
        of(*kernel).product(a.row(first), a.ld, m, w.panel(p), k, count, part.data(), count * kLanes, false);
        for (int r = 0; r < m; r++)
          same &= !std::memcmp(&part[size_t(r) * count * kLanes], &all[size_t(first + r) * width + p * kLanes],
                               size_t(count) * kLanes * 4);
        p += count;
      }
    }
    expect(same, what + ": row counts and splits on " + isa_name(kernel->isa));

    Floats row(k);
    bool embedded = true;
    for (int id = 0; id < n; id++) {
      of(*kernel).embed(w.panels.at, k, id, row.data());
      embedded &= !std::memcmp(row.data(), &w.values[size_t(id) * k], size_t(k) * 4);
    }
    expect(embedded, what + ": rows of the embedding on " + isa_name(kernel->isa));
    // Over the numbers the blocks stand for, rounded to the compute type.
    Block left = rounded(*kernel, x, rows, k, k), right = packed(*kernel, w.values, n, k);
    Floats dequantized = c0, floats = c0;
    of(*kernel).dequantized_product(left.at, k, rows, w.panels.at, k, int(panels_of(n)), dequantized.data(), width,
                                    true);
    kernel->gemm(left.at, k, rows, right.at, k, int(panels_of(n)), floats.data(), width, true);
    expect(!std::memcmp(dequantized.data(), floats.data(), floats.size() * 4),
           what + ": dequantised product on " + isa_name(kernel->isa));

    if (!of(*kernel).transpose_panels) continue;
    bool transposed = true;
    for (int col = 0; col < k; col += 48) {
      const int cols = std::min(48, k - col), skip = n > 32 ? 32 : 0,
                bytes = int(panels_of(cols) * panel_bytes(*kernel, n - skip));
      Block got(bytes), wanted(bytes);
      of(*kernel).transpose_panels(w.panels.at, k, col, cols, skip, n - skip, got.at);
      kernel->transpose_panels(right.at, n, k, col, cols, skip, n - skip, wanted.at);
      transposed &= !std::memcmp(got.at, wanted.at, size_t(bytes));
    }
    expect(transposed, what + ": transposed on " + isa_name(kernel->isa));
  }
}

// Blocks made of numbers, taken apart and put together; and how near they come.
void test_blocks() {
  for (int h = 0; h < 0x10000; h++) {
    const float wide = quantization::widen_half(uint16_t(h));
    if (!std::isnan(wide)) expect(quantization::narrow_half(wide) == h, "float16 " + std::to_string(h));
  }
  for (int i = 0; i < 100000; i++) {
    const float x = std::ldexp(normal(), int(random_bits() % 44) - 26);
    const float got = quantization::widen_half(quantization::narrow_half(x));
    const float step = std::max(std::ldexp(1.0f, std::ilogb(x == 0 ? 1 : x) - 10), 0x1p-24f);
    if (std::fabs(x) < 65504) expect(std::fabs(got - x) <= step / 2, "rounding to float16 of " + std::to_string(x));
  }
  const double most[] = {0.006, 0.09, 0.075, 0.046, 0, 0.08, 0, 0.022};
  for (int f = kGgufFormats; f < kQuantizedCount; f++) {
    const int bytes = model::quantized_format(format_of(f)).bytes;
    std::vector<uint8_t> one(bytes), again(bytes);
    for (uint8_t& byte : one) byte = uint8_t(random_bits());
    if (model::quantized_format(format_of(f)).looked_up)  // the other zero becomes the first
      for (uint8_t& byte : one)
        byte = uint8_t(((byte & 15) == 8 ? 0 : byte & 15) | ((byte >> 4) == 8 ? 0 : byte & 0xf0));
    quantization::Block b{};
    quantization::take_apart(format_of(f), one.data(), b);
    quantization::put_together(format_of(f), b, again.data());
    expect(one == again, std::string("blocks put together again: ") + name_of(f));
  }
  for (int f = 0; f < kGgufFormats; f++) {
    if (!quantization::can_quantize(format_of(f))) continue;
    const int k = 4096;
    Floats x = normals(k), back(k);
    for (int i = 0; i < 512; i++) x[i] = i < 256 ? 0 : 5;  // groups of zeros, and of one number
    std::vector<uint8_t> row(quantization::row_bytes(format_of(f), k)), again(row.size());
    for (int i = 512; i < 768; i++) x[i] = std::ldexp(x[i], i % 32 == 7 ? -130 : i % 60 - 40);
    const int numbers = k - model::quantized_format(format_of(f)).numbers;  // not whole turns of a small block
    quantization::quantize_row(format_of(f), x.data(), k, row.data());
    for (const quantization::FitBlocks fit : quantization::all_fit_blocks()) {
      std::vector<uint8_t> own(row.size()), few(size_t(quantization::row_bytes(format_of(f), numbers)));
      quantization::quantize_row(format_of(f), x.data(), k, own.data(), fit);
      quantization::quantize_row(format_of(f), x.data(), numbers, few.data(), fit);
      expect(own == row && std::equal(few.begin(), few.end(), row.begin()),
             std::string("blocks of ") + name_of(f) + " made by every instruction set");
    }
    quantization::dequantize_row(format_of(f), row.data(), k, back.data());
    double error = 0, size = 0;
    for (int i = 768; i < k; i++) error += std::pow(back[i] - x[i], 2), size += double(x[i]) * x[i];
    expect(std::sqrt(error / size) < most[f],
           std::string("error of ") + name_of(f) + ": " + std::to_string(std::sqrt(error / size)));
    for (int i = 0; i < 512; i++) expect(std::fabs(back[i] - x[i]) < 0.04, std::string("flat groups of ") + name_of(f));
    quantization::Block b{};
    const int size_of = model::quantized_format(format_of(f)).bytes;
    for (uint8_t& byte : row) byte = uint8_t(random_bits());
    for (size_t at = 0; at < row.size(); at += size_of) {
      quantization::take_apart(format_of(f), &row[at], b);
      quantization::put_together(format_of(f), b, &again[at]);
    }
    expect(row == again, std::string("blocks put together again: ") + name_of(f));
  }
}

}  // namespace

// FOLDER/Q8_0.bin holds blocks, FOLDER/Q8_0.f32 the numbers that another program reads in them.
void test_reference_blocks(const std::string& folder) {
  const auto bytes_of = [](const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return std::vector<char>(std::istreambuf_iterator<char>(file), {});
  };
  for (int f = 0; f < kGgufFormats; f++) {
    std::string name = name_of(f);
    for (char& c : name) c = char(std::toupper(c));
    const std::vector<char> blocks = bytes_of(folder + "/" + name + ".bin"),
                            numbers = bytes_of(folder + "/" + name + ".f32");
    Floats got(numbers.size() / 4);
    const bool fits =
        !got.empty() && int64_t(blocks.size()) == quantization::row_bytes(format_of(f), int64_t(got.size()));
    expect(fits, name + ": sizes of the reference blocks");
    if (!fits) continue;
    quantization::dequantize_row(format_of(f), (const uint8_t*)blocks.data(), int64_t(got.size()), got.data());
    expect(!std::memcmp(got.data(), numbers.data(), numbers.size()), name + ": numbers of the reference blocks");
  }
}

void test_quantized() {
  test_blocks();
  for (DType type : {DType::f32, DType::bf16}) {
    test_activations(type);
    test_short_groups(type);
    test_wide_activations(type);
    for (int f = 0; f < kQuantizedCount; f++) {
      const int block = model::quantized_format(format_of(f)).numbers;
      for (auto [n, k] : {std::pair{1, block}, {17, 5 * block}, {112, 2 * block}, {64, 3 * block}})
        test_format(f, type, n, k);
      for (auto [n, k] : {std::pair{5, block}, {64, 2 * block}, {300, 3 * block}}) test_transposes(f, type, n, k);
    }
  }
}

}  // namespace anneal::cpu::test
