// Checks of every kernel: against a double-precision reference, bit for bit across instruction sets, row counts and ways to split
// the work, and (gradients) against finite differences. Build and run: make -C native/kernels test. Throughput: make -C native/kernels bench.
#include "kernels.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <time.h>
#include <vector>

using namespace anneal;
using Floats = std::vector<float>;
using Bytes = std::vector<uint8_t>;

namespace {

int failures = 0, checks = 0;
std::mt19937_64 random_bits(20240607);

void expect(bool good, const std::string& what) {
  checks++;
  if (good) return;
  failures++;
  std::printf("FAILED %s\n", what.c_str());
}

float normal() { return std::normal_distribution<float>()(random_bits); }
Floats normals(size_t n, float scale = 1) {
  Floats v(n);
  for (float& x : v) x = scale * normal();
  return v;
}
// Memory that vectors of any size may be loaded from, 64-byte aligned.
struct Block {
  explicit Block(size_t n) : bytes(n), at(std::aligned_alloc(64, (n + 127) / 64 * 64)) { std::memset(at, 0, n); }
  Block(Block&& o) : bytes(o.bytes), at(o.at) { o.at = nullptr; }
  ~Block() { std::free(at); }
  size_t bytes;
  void* at;
};

std::vector<const Kernels*> sets(DType type) {
  std::vector<const Kernels*> all;
  for (Isa isa : {Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512bf16})
    if (const Kernels* k = kernels(isa, type)) all.push_back(k);
  return all;
}
const char* name(DType t) { return t == DType::f32 ? "float32" : "bfloat16"; }

// Runs on every instruction set; all must give the bits of the portable one, which are returned. NaNs count as equal.
Floats same_everywhere(DType type, const std::string& what, const std::function<Floats(const Kernels&)>& run) {
  Floats first;
  for (const Kernels* k : sets(type)) {
    Floats got = run(*k);
    if (k->isa == Isa::portable) {
      first = got;
      continue;
    }
    size_t bad = 0, at = 0;
    for (size_t i = 0; i < got.size(); i++)
      if (std::memcmp(&got[i], &first[i], 4) && !(std::isnan(got[i]) && std::isnan(first[i]))) {
        if (!bad++) at = i;
      }
    char text[256];
    std::snprintf(text, sizeof text, "%s %s: %s differs from portable in %zu of %zu (first at %zu: %.9g, %.9g)", what.c_str(), name(type),
                  isa_name(k->isa), bad, got.size(), at, bad ? got[at] : 0, bad ? first[at] : 0);
    expect(!bad && got.size() == first.size(), text);
  }
  return first;
}

// |got - want| <= tolerance * (|want| + unit).
void near(const std::string& what, const Floats& got, const std::vector<double>& want, double tolerance, double unit = 1) {
  double worst = 0;
  size_t at = 0;
  for (size_t i = 0; i < want.size(); i++) {
    double e = std::fabs(got[i] - want[i]) / (std::fabs(want[i]) + unit);
    if (!(e <= worst)) worst = e, at = i;
  }
  char text[256];
  std::snprintf(text, sizeof text, "%s: error %.3g over %.3g (at %zu: %.9g, want %.9g)", what.c_str(), worst, tolerance, at,
                want.empty() ? 0 : got[at], want.empty() ? 0 : want[at]);
  expect(got.size() >= want.size() && worst <= tolerance, text);
}

// Rows of floats in the compute type, ld elements each, zero padded; and back.
Block rounded(const Kernels& k, const Floats& x, int rows, int cols, int ld) {
  Block b(size_t(rows) * ld * k.elem + 64);
  k.round_rows(x.data(), cols, rows, cols, 1, b.at, ld);
  return b;
}
Floats widened(const Kernels& k, const void* x, int rows, int cols, int ld) {
  Floats y(size_t(rows) * cols);
  k.widen_rows(x, ld, rows, cols, y.data(), cols);
  return y;
}
// What the compute type keeps of x, independently of the kernels.
float kept(DType type, float x) {
  if (type == DType::f32) return x;
  uint32_t u;
  std::memcpy(&u, &x, 4);
  if (std::isnan(x)) u |= 0x400000;
  else if ((u & 0x7f800000) == 0) u &= 0x80000000u;
  else u += 0x7fff + ((u >> 16) & 1);
  u &= 0xffff0000u;
  std::memcpy(&x, &u, 4);
  return x;
}
Floats kept(DType type, Floats x) {
  for (float& v : x) v = kept(type, v);
  return x;
}
Block packed(const Kernels& k, const Floats& w, int n, int depth) {
  Block b(panels_of(n) * panel_bytes(k, depth) + 64);
  k.pack(w.data(), DType::f32, depth, n, depth, b.at);
  return b;
}

void test_rounding() {
  Floats x;
  for (int i = 0; i < 200000; i++) {
    uint32_t u = uint32_t(random_bits());
    float f;
    std::memcpy(&f, &u, 4);
    x.push_back(f);
  }
  for (uint32_t u : {0u, 0x80000000u, 1u, 0x007fffffu, 0x00800000u, 0x7f7fffffu, 0x7f800000u, 0xff800000u, 0x7f800001u, 0x7fffffffu, 0x3f808000u, 0x3f818000u}) {
    float f;
    std::memcpy(&f, &u, 4);
    x.push_back(f);
  }
  const int n = int(x.size());
  for (const Kernels* k : sets(DType::bf16)) {
    Block b = rounded(*k, x, 1, n, n);
    size_t bad = 0;
    for (int i = 0; i < n; i++) {
      // The scale of 1 flushes a denormal and quiets a NaN before the rounding does.
      uint32_t want;
      float f = kept(DType::bf16, x[i]);
      std::memcpy(&want, &f, 4);
      bad += want >> 16 != ((uint16_t*)b.at)[i];
    }
    expect(!bad, std::string("rounding to bfloat16 on ") + isa_name(k->isa) + ": wrong bits " + std::to_string(bad));
  }
}

// Raw bit patterns in every operand: the exact fused arithmetic, its flushing, infinities.
void test_products_of_any_bits() {
  for (DType type : {DType::bf16, DType::f32})
    for (int style = 0; style < 4; style++) {
      const int m = 64, n = 512, k = style == 3 ? 6 : 2;
      auto pattern = [&] {
        uint32_t u = uint32_t(random_bits());
        int exponent = style == 0   ? int(random_bits() % 256)             // anything
                       : style == 1 ? 127 + int(random_bits() % 41) - 20   // sums that cancel and round
                       : style == 2 ? 40 + int(random_bits() % 30)         // products around the smallest normal numbers
                                    : 60 + int(random_bits() % 10);
        u = (u & 0x807fffffu) | uint32_t(exponent) << 23;
        float f;
        std::memcpy(&f, &u, 4);
        return f;
      };
      Floats a(m * k), w(n * k), c(m * n);
      for (float& v : a) v = kept(type, pattern());
      for (float& v : w) v = kept(type, pattern());
      for (float& v : c) {
        v = pattern();
        if (style == 2 && random_bits() % 2) {  // the accumulator near the products, denormals among them
          uint32_t u;
          std::memcpy(&u, &v, 4);
          u = (u & 0x807fffffu) | uint32_t(random_bits() % 30) << 23;
          std::memcpy(&v, &u, 4);
        }
      }
      same_everywhere(type, "products of raw bits, style " + std::to_string(style), [&](const Kernels& kernel) {
        Block left = rounded(kernel, a, m, k, k), right = packed(kernel, w, n, k);
        Floats out = c;
        kernel.gemm(left.at, k, m, right.at, k, n / 16, out.data(), n, true);
        return out;
      });
    }
}

void test_gemm() {
  for (DType type : {DType::bf16, DType::f32})
    for (auto [n, k] : {std::pair{1, 1}, {16, 2}, {17, 7}, {48, 64}, {33, 31}, {80, 24}, {112, 515}, {192, 192}, {64, 5003}}) {
      const int rows = 100, width = int(panels_of(n)) * 16, lda = (k + 3) & ~1;
      Floats a = kept(type, normals(size_t(rows) * k)), w = kept(type, normals(size_t(n) * k)), c0 = normals(size_t(rows) * width);
      std::string what = "gemm n=" + std::to_string(n) + " k=" + std::to_string(k);
      Floats all = same_everywhere(type, what, [&](const Kernels& kernel) {
        Block left = rounded(kernel, a, rows, k, lda), right = packed(kernel, w, n, k);
        Floats c(size_t(rows) * width), d = c0;
        kernel.gemm(left.at, lda, rows, right.at, k, int(panels_of(n)), c.data(), width, false);
        kernel.gemm(left.at, lda, rows, right.at, k, int(panels_of(n)), d.data(), width, true);
        c.insert(c.end(), d.begin(), d.end());
        return c;
      });
      std::vector<double> want(2 * size_t(rows) * width);
      for (int r = 0; r < rows; r++)
        for (int j = 0; j < n; j++) {
          double s = 0;
          for (int i = 0; i < k; i++) s += double(a[r * k + i]) * w[j * k + i];
          want[r * width + j] = s;
        }
      for (size_t i = 0; i < c0.size(); i++) want[c0.size() + i] = want[i] + c0[i];
      near(what + " " + name(type), all, want, 3e-7 * std::sqrt(k) + 1e-6, std::sqrt(k));
      // Any number of rows, anywhere among the others: the same bits.
      for (const Kernels* kernel : sets(type)) {
        if (kernel->isa == Isa::portable && k > 1000) continue;
        Block left = rounded(*kernel, a, rows, k, lda), right = packed(*kernel, w, n, k);
        bool same = true;
        for (int m : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 64}) {
          int first = int(random_bits() % (rows - m + 1));
          Floats c(size_t(m) * width);
          kernel->gemm((char*)left.at + size_t(first) * lda * kernel->elem, lda, m, right.at, k, int(panels_of(n)), c.data(), width, false);
          same &= !std::memcmp(c.data(), &all[size_t(first) * width], c.size() * 4);
          // And any split of the panels.
          for (int p = 0; p < panels_of(n); p++) {
            Floats part(size_t(m) * 16);
            kernel->gemm((char*)left.at + size_t(first) * lda * kernel->elem, lda, m, (char*)right.at + p * panel_bytes(*kernel, k), k, 1,
                         part.data(), 16, false);
            for (int r = 0; r < m; r++) same &= !std::memcmp(&part[r * 16], &all[size_t(first + r) * width + p * 16], 64);
          }
        }
        expect(same, what + " " + name(type) + " " + isa_name(kernel->isa) + ": rows or panels change the bits");
      }
    }
}

void test_panels() {
  for (DType type : {DType::bf16, DType::f32})
    for (auto [n, k] : {std::pair{1, 1}, {16, 16}, {17, 7}, {33, 31}, {80, 50}, {48, 96}}) {
      Floats w = kept(type, normals(size_t(n) * k));
      std::string what = "panels " + std::string(name(type)) + " n=" + std::to_string(n) + " k=" + std::to_string(k);
      for (const Kernels* kp : sets(type)) {
        const Kernels& kernel = *kp;
        const std::string on = what + " " + isa_name(kernel.isa);
        const int step = kernel.k_step, deep = round_up(k, step), wide = int(panels_of(n)) * 16;
        Block p = packed(kernel, w, n, k);
        // The layout, element by element.
        bool good = true;
        Floats flat = widened(kernel, p.at, 1, wide * deep, wide * deep);
        for (int j = 0; j < wide; j++)
          for (int i = 0; i < deep; i++)
            good &= flat[size_t(j / 16) * deep * 16 + i / step * 16 * step + j % 16 * step + i % step] == (j < n && i < k ? w[j * k + i] : 0);
        expect(good, on + ": layout");
        Block source = rounded(kernel, w, n, k, k), again(p.bytes);
        kernel.pack(source.at, type, k, n, k, again.at);
        expect(!std::memcmp(p.at, again.at, p.bytes - 64), on + ": packed from the compute type");
        Floats back(size_t(n) * k);
        kernel.unpack(p.at, n, k, back.data(), k);
        expect(back == w, on + ": unpack");
        Floats row(k);
        bool rows_good = true;
        for (int j = 0; j < n; j++) {
          kernel.embed(p.at, n, k, j, row.data());
          rows_good &= !std::memcmp(row.data(), &w[j * k], k * 4);
        }
        expect(rows_good, on + ": embed");
        // Panels of the transpose, three ways.
        Floats wt(size_t(k) * n);
        for (int j = 0; j < n; j++)
          for (int i = 0; i < k; i++) wt[i * n + j] = w[j * k + i];
        Block t = packed(kernel, wt, k, n), t2(t.bytes), t3(t.bytes), t4(t.bytes);
        kernel.pack_transposed(w.data(), DType::f32, k, n, k, t2.at);
        kernel.pack_transposed(source.at, type, k, n, k, t3.at);
        kernel.transpose_panels(p.at, n, k, 0, round_up(k, 16), 0, n, t4.at);
        expect(!std::memcmp(t.at, t2.at, t.bytes - 64), on + ": pack_transposed from float32");
        expect(!std::memcmp(t.at, t3.at, t.bytes - 64), on + ": pack_transposed from the compute type");
        expect(!std::memcmp(t.at, t4.at, t.bytes - 64), on + ": transpose_panels");
        if (n > 32 && k > 32) {  // a part of it
          Floats part;
          for (int i = 16; i < 32; i++)
            for (int j = 16; j < n; j++) part.push_back(w[j * k + i]);
          Block want = packed(kernel, part, 16, n - 16), got(want.bytes);
          kernel.transpose_panels(p.at, n, k, 16, 16, 16, n - 16, got.at);
          expect(!std::memcmp(want.at, got.at, want.bytes - 64), on + ": part of transpose_panels");
        }
        // Row-major transposition, zero padded.
        const int ldd = n + 5;
        Block rm(size_t(k) * ldd * kernel.elem), rm2(rm.bytes);
        std::memset(rm.at, 0xff, rm.bytes);
        std::memset(rm2.at, 0xff, rm2.bytes);
        kernel.transpose(w.data(), DType::f32, k, n, k, rm.at, ldd);
        kernel.transpose(source.at, type, k, n, k, rm2.at, ldd);
        Floats got = widened(kernel, rm.at, k, ldd, ldd);
        bool right = true;
        for (int i = 0; i < k; i++)
          for (int j = 0; j < ldd; j++) right &= got[i * ldd + j] == (j < n ? wt[i * n + j] : 0);
        expect(right, on + ": transpose");
        expect(!std::memcmp(rm.at, rm2.at, rm.bytes), on + ": transpose from the compute type");
      }
    }
}

// exp and log through exp_shifted and log_sum_exp, over their whole ranges.
void test_exp_log() {
  Floats x;
  for (float v = -104; v < 88.3f; v += 0.00037f) x.push_back(v);
  const int n = int(x.size());
  Floats y = same_everywhere(DType::f32, "exp", [&](const Kernels& k) {
    Floats y(n);
    y.push_back(k.exp_shifted(x.data(), n, 0, y.data()));
    return y;
  });
  double worst = 0;
  bool zeros = true;
  for (int i = 0; i < n; i++) {
    double want = std::exp(double(x[i]));
    if (want < 1.1754944e-38) {
      zeros &= y[i] == 0 || x[i] > -87.34f;
      continue;
    }
    double ulp = std::ldexp(1.0, std::ilogb(want) - 23);
    worst = std::fmax(worst, std::fabs(y[i] - want) / ulp);
  }
  std::printf("exp: at most %.3f ulp off\n", worst);
  expect(zeros, "exp of very negative numbers is 0");
  expect(worst < 1.1, "exp within 1.1 ulp");
  for (const Kernels* k : sets(DType::f32)) {
    Floats odd = {-INFINITY, INFINITY, NAN, 0, -0.0f, 100}, out(6);
    k->exp_shifted(odd.data(), 6, 0, out.data());
    expect(out[0] == 0 && out[1] > 1e38f && std::isnan(out[2]) && out[3] == 1 && out[4] == 1 && out[5] > 1e38f, "exp of special values");
  }
  // log: n equal logits of 0 and one of t give ln(n + e^t).
  double worst_log = 0;
  Floats logs = same_everywhere(DType::f32, "log", [&](const Kernels& k) {
    Floats out;
    for (int count = 1; count < 3000; count++) {
      Floats zeros(count, 0.0f);
      out.push_back(k.log_sum_exp(zeros.data(), count));
    }
    return out;
  });
  for (int count = 2; count < 3000; count++) {
    double want = std::log(double(count)), ulp = std::ldexp(1.0, std::ilogb(want) - 23);
    worst_log = std::fmax(worst_log, std::fabs(logs[count - 1] - want) / ulp);
  }
  std::printf("log: at most %.3f ulp off\n", worst_log);
  expect(logs[0] == 0 && worst_log < 1.0, "log within 1 ulp");
}

void test_logits() {
  for (int n : {1, 5, 16, 511, 512, 513, 1000, 5003}) {
    const int ld = n + 9;
    Floats x = normals(ld, 4);
    for (int i = n; i < ld; i++) x[i] = 1e30f;  // padding must not matter
    const int target = n / 2;
    for (DType type : {DType::f32, DType::bf16}) {
      Floats got = same_everywhere(type, "logits n=" + std::to_string(n), [&](const Kernels& k) {
        Floats out(n);
        float lse = k.log_sum_exp(x.data(), n), sum = k.exp_shifted(x.data(), n, lse, out.data());
        Block y(size_t(ld) * k.elem);
        std::memset(y.at, 0xff, y.bytes);
        k.softmax_residual(x.data(), n, lse, target, 0.25f, y.at, ld);
        Floats residual = widened(k, y.at, 1, ld, ld);
        out.insert(out.end(), residual.begin(), residual.end());
        for (float v : {lse, sum, k.entropy(x.data(), n, lse)}) out.push_back(v);
        return out;
      });
      double top = -1e30, sum = 0, entropy = 0;
      for (int i = 0; i < n; i++) top = std::fmax(top, x[i]);
      for (int i = 0; i < n; i++) sum += std::exp(x[i] - top);
      const double lse = top + std::log(sum);
      std::vector<double> want(n + ld + 3);
      for (int i = 0; i < n; i++) {
        double p = std::exp(x[i] - lse);
        want[i] = p;
        want[n + i] = 0.25 * ((i == target) - p);
        entropy -= p * (x[i] - lse);
      }
      want[n + ld] = lse;
      want[n + ld + 1] = 1;
      want[n + ld + 2] = entropy;
      near("logits n=" + std::to_string(n) + " " + name(type), got, want, type == DType::f32 ? 3e-6 : 4e-3, 0.1);
    }
  }
  Floats masked(600, -INFINITY);
  masked[550] = 2;
  for (const Kernels* k : sets(DType::f32)) {
    float lse = k->log_sum_exp(masked.data(), 600);
    expect(lse == 2, "log_sum_exp with masked logits");
    expect(k->entropy(masked.data(), 600, lse) == 0, "entropy with masked logits");
    Floats bad(600, 1.0f);
    bad[77] = NAN;
    expect(std::isnan(k->log_sum_exp(bad.data(), 600)), "log_sum_exp of NaN is NaN");
  }
}

void test_sums() {
  for (int n : {1, 15, 16, 33, 5000, 9001}) {
    Floats x = normals(n), y = normals(n);
    Floats got = same_everywhere(DType::f32, "sums n=" + std::to_string(n), [&](const Kernels& k) {
      Floats a = y, b = y;
      k.add(a.data(), x.data(), n);
      k.add_scaled(b.data(), x.data(), 0.37f, n);
      a.insert(a.end(), b.begin(), b.end());
      a.push_back(float(k.sum_squares(x.data(), n)));
      return a;
    });
    std::vector<double> want(2 * n + 1);
    for (int i = 0; i < n; i++) {
      want[i] = double(x[i]) + y[i];
      want[n + i] = double(0.37f) * x[i] + y[i];
      want[2 * n] += double(x[i]) * x[i];
    }
    near("sums n=" + std::to_string(n), got, want, 2e-7);
  }
  for (auto [rows, n] : {std::pair{1, 1}, {7, 20}, {64, 48}}) {
    const int ld = n + 3;
    Floats x = normals(size_t(rows) * ld), s = normals(n);
    Floats got = same_everywhere(DType::f32, "columns", [&](const Kernels& k) {
      Floats sums = s, biased = x;
      k.column_sums(x.data(), ld, rows, n, sums.data());
      k.bias_add(biased.data(), ld, rows, n, s.data());
      sums.insert(sums.end(), biased.begin(), biased.end());
      return sums;
    });
    std::vector<double> want(s.begin(), s.end());
    for (int r = 0; r < rows; r++)
      for (int i = 0; i < n; i++) want[i] += x[r * ld + i];
    for (int r = 0; r < rows; r++)
      for (int i = 0; i < ld; i++) want.push_back(x[r * ld + i] + (i < n ? double(s[i]) : 0));
    near("columns", got, want, 2e-6);
  }
}

// d/dx of `loss` at x by central differences, compared with `gradient`.
void check_gradient(const std::string& what, Floats x, const Floats& gradient, const std::function<double(const Floats&)>& loss, double tolerance) {
  double worst = 0, scale = 1e-3;
  for (float g : gradient) scale = std::fmax(scale, std::fabs(g));
  for (size_t trial = 0; trial < 60; trial++) {
    size_t i = x.size() <= 60 ? trial % x.size() : random_bits() % x.size();
    const float keep = x[i], h = 4e-3f;
    x[i] = keep + h;
    const double up = loss(x), x_up = x[i];
    x[i] = keep - h;
    const double down = loss(x), x_down = x[i];
    x[i] = keep;
    worst = std::fmax(worst, std::fabs((up - down) / (x_up - x_down) - gradient[i]) / scale);
  }
  char text[160];
  std::snprintf(text, sizeof text, "%s: gradient off by %.3g of its scale", what.c_str(), worst);
  expect(worst < tolerance, text);
}
double dot(const Floats& a, const Floats& b) {
  double s = 0;
  for (size_t i = 0; i < a.size(); i++) s += double(a[i]) * b[i];
  return s;
}

void test_rmsnorm() {
  for (auto [rows, n] : {std::pair{3, 5}, {2, 16}, {5, 192}, {4, 333}}) {
    const int ldx = n + 2, ldy = round_up(n, 2) + 4;
    Floats x = normals(size_t(rows) * ldx), w = normals(n), dy = normals(size_t(rows) * n), dx0 = normals(size_t(rows) * ldx), dw0 = normals(n);
    const float eps = 1e-5f;
    for (DType type : {DType::f32, DType::bf16}) {
      std::string what = "rmsnorm n=" + std::to_string(n) + " " + name(type);
      Floats got = same_everywhere(type, what, [&](const Kernels& k) {
        Block y(size_t(rows) * ldy * k.elem);
        k.rmsnorm(x.data(), ldx, w.data(), eps, rows, n, y.at, ldy);
        Floats out = widened(k, y.at, rows, n, ldy), dx = dx0, dw = dw0;
        k.rmsnorm_backward(x.data(), ldx, w.data(), eps, dy.data(), n, rows, n, dx.data(), ldx, dw.data());
        out.insert(out.end(), dx.begin(), dx.end());
        out.insert(out.end(), dw.begin(), dw.end());
        return out;
      });
      std::vector<double> want(size_t(rows) * n);
      for (int r = 0; r < rows; r++) {
        double s = 0;
        for (int i = 0; i < n; i++) s += double(x[r * ldx + i]) * x[r * ldx + i];
        for (int i = 0; i < n; i++) want[r * n + i] = x[r * ldx + i] / std::sqrt(s / n + eps) * w[i];
      }
      near(what, got, want, type == DType::f32 ? 1e-6 : 4e-3, 0.01);
      if (type == DType::bf16) continue;
      const Kernels& k = *kernels(best_isa(), type);
      auto loss = [&](const Floats& xx, const Floats& ww) {
        Floats y(size_t(rows) * n);
        k.rmsnorm(xx.data(), ldx, ww.data(), eps, rows, n, y.data(), n);
        return dot(y, dy);
      };
      Floats dx(got.begin() + rows * n, got.begin() + rows * n + rows * ldx), dw(got.end() - n, got.end());
      for (size_t i = 0; i < dx.size(); i++) dx[i] -= dx0[i];
      for (int i = 0; i < n; i++) dw[i] -= dw0[i];
      check_gradient(what + " dx", x, dx, [&](const Floats& v) { return loss(v, w); }, 2e-3);
      check_gradient(what + " dweight", w, dw, [&](const Floats& v) { return loss(x, v); }, 2e-3);
    }
  }
}

void test_rope() {
  for (int hd : {8, 16, 24, 32, 64, 80, 96, 128, 256})
    for (bool norm : {false, true}) {
      const int heads = 3, ldx = hd + 4, half = hd / 2;
      const float eps = 1e-6f;
      Floats w = normals(hd), c(half), s(half), dy = normals(size_t(heads) * hd), dw0 = normals(hd);
      for (int i = 0; i < half; i++) {
        double angle = 37 * std::pow(10000.0, -2.0 * i / hd);
        c[i] = float(std::cos(angle)), s[i] = float(std::sin(angle));
      }
      for (DType type : {DType::f32, DType::bf16}) {
        Floats x = kept(type, normals(size_t(heads) * ldx));
        const float* weight = norm ? w.data() : nullptr;
        std::string what = "rope head_dim=" + std::to_string(hd) + (norm ? " with norm " : " ") + name(type);
        Floats got = same_everywhere(type, what, [&](const Kernels& k) {
          Block t = rounded(k, x, heads, ldx, ldx);
          Floats y(size_t(heads) * hd), dx(y.size()), dw = dw0;
          k.head_norm_rope(t.at, ldx, heads, hd, weight, eps, c.data(), s.data(), y.data());
          k.head_norm_rope_backward(t.at, ldx, heads, hd, weight, eps, c.data(), s.data(), dy.data(), dx.data(), norm ? dw.data() : nullptr);
          y.insert(y.end(), dx.begin(), dx.end());
          y.insert(y.end(), dw.begin(), dw.end());
          return y;
        });
        std::vector<double> want(size_t(heads) * hd);
        for (int h = 0; h < heads; h++) {
          std::vector<double> u(hd);
          double ss = 0;
          for (int i = 0; i < hd; i++) ss += double(x[h * ldx + i]) * x[h * ldx + i];
          for (int i = 0; i < hd; i++) u[i] = x[h * ldx + i] * (norm ? w[i] / std::sqrt(ss / hd + eps) : 1.0);
          for (int i = 0; i < half; i++) {
            want[h * hd + i] = u[i] * c[i] - u[i + half] * s[i];
            want[h * hd + i + half] = u[i + half] * c[i] + u[i] * s[i];
          }
        }
        near(what, got, want, 1e-6);
        if (type == DType::bf16) continue;
        const Kernels& k = *kernels(best_isa(), type);
        auto loss = [&](const Floats& xx, const float* ww) {
          Floats y(size_t(heads) * hd);
          k.head_norm_rope(xx.data(), ldx, heads, hd, ww, eps, c.data(), s.data(), y.data());
          return dot(y, dy);
        };
        Floats dx(size_t(heads) * ldx), dw(got.end() - hd, got.end());
        for (int h = 0; h < heads; h++) std::memcpy(&dx[h * ldx], &got[size_t(heads + h) * hd], hd * 4);
        check_gradient(what + " dx", x, dx, [&](const Floats& v) { return loss(v, weight); }, 2e-3);
        for (int i = 0; i < hd; i++) dw[i] -= dw0[i];
        if (norm) check_gradient(what + " dweight", w, dw, [&](const Floats& v) { return loss(x, v.data()); }, 2e-3);
      }
    }
}

void test_silu() {
  for (int n : {1, 16, 37, 576}) {
    const int rows = 3, ld = n + 1;
    for (DType type : {DType::f32, DType::bf16}) {
      Floats g = kept(type, normals(size_t(rows) * ld, 5)), u = kept(type, normals(size_t(rows) * ld)), dy = normals(size_t(rows) * n);
      std::string what = "silu n=" + std::to_string(n) + " " + name(type);
      Floats got = same_everywhere(type, what, [&](const Kernels& k) {
        Block gate = rounded(k, g, rows, ld, ld), up = rounded(k, u, rows, ld, ld), y(size_t(rows) * ld * k.elem);
        k.silu_mul(gate.at, up.at, ld, rows, n, y.at, ld);
        Floats out = widened(k, y.at, rows, n, ld), dg(size_t(rows) * ld), du = dg;
        k.silu_mul_backward(gate.at, up.at, ld, dy.data(), n, rows, n, dg.data(), du.data(), ld);
        out.insert(out.end(), dg.begin(), dg.end());
        out.insert(out.end(), du.begin(), du.end());
        return out;
      });
      std::vector<double> want;
      for (int r = 0; r < rows; r++)
        for (int i = 0; i < n; i++) want.push_back(g[r * ld + i] / (1 + std::exp(-double(g[r * ld + i]))) * u[r * ld + i]);
      near(what, got, want, type == DType::f32 ? 1e-6 : 4e-3, 0.01);
      if (type == DType::bf16) continue;
      const Kernels& k = *kernels(best_isa(), type);
      auto loss = [&](const Floats& gg, const Floats& uu) {
        Floats y(size_t(rows) * n);
        k.silu_mul(gg.data(), uu.data(), ld, rows, n, y.data(), n);
        return dot(y, dy);
      };
      Floats dg(got.begin() + rows * n, got.begin() + rows * (n + ld)), du(got.end() - rows * ld, got.end());
      check_gradient(what + " dgate", g, dg, [&](const Floats& v) { return loss(v, u); }, 2e-3);
      check_gradient(what + " dup", u, du, [&](const Floats& v) { return loss(g, v); }, 2e-3);
    }
  }
}

// One sequence's keys and values in pages, and attention over it for any rows.
struct Cache {
  const Kernels& k;
  int head_dim, keys;
  std::vector<Block> pages;
  std::vector<const void*> k_pages, v_pages;

  Cache(const Kernels& kernel, int hd, int count, const Floats& key, const Floats& value) : k(kernel), head_dim(hd), keys(count) {
    for (int i = 0; i < keys; i++) {
      if (i % kPage == 0)
        for (int side = 0; side < 2; side++) {
          pages.emplace_back(k.page_bytes(hd));
          (side ? v_pages : k_pages).push_back(pages.back().at);
        }
      k.kv_write(&key[size_t(i) * hd], &value[size_t(i) * hd], i % kPage, hd, (void*)k_pages.back(), (void*)v_pages.back());
    }
  }
  // out [rows][head_dim], then lse [rows].
  Floats attend(const Floats& q, const std::vector<int32_t>& positions, float scale) const {
    const int rows = int(positions.size()), ldq = round_up(head_dim, 2) + 2, ldo = head_dim + 1;
    Block left = rounded(k, q, rows, head_dim, ldq), scratch(k.attention_scratch(head_dim));
    Floats out(size_t(rows) * ldo), lse(rows);
    int last = 0;
    for (int p : positions) last = std::max(last, p);
    AttentionTask t{rows, head_dim, scale, left.at, ldq, positions.data(), last / kPage + 1, k_pages.data(), v_pages.data(), out.data(), ldo, lse.data(), scratch.at};
    k.attention(t);
    Floats result;
    for (int r = 0; r < rows; r++) result.insert(result.end(), &out[r * ldo], &out[r * ldo] + head_dim);
    result.insert(result.end(), lse.begin(), lse.end());
    return result;
  }
  // dq [rows][hd] tile by tile, then dk, dv [keys][hd].
  Floats backward(const Floats& q, const std::vector<int32_t>& positions, float scale, const Floats& forward, const Floats& dout) const {
    const int rows = int(positions.size()), ldq = round_up(head_dim, 2) + 2, pages_used = int(k_pages.size());
    Block left = rounded(k, q, rows, head_dim, ldq), scratch(k.attention_backward_scratch(head_dim));
    Floats dq(size_t(rows) * head_dim), dk(size_t(pages_used) * kPage * head_dim), dv = dk;
    AttentionBackwardTask t{};
    t.head_dim = head_dim, t.scale = scale, t.ldq = ldq, t.ldo = t.lddo = t.lddq = t.lddkv = head_dim, t.scratch = scratch.at;
    for (int row = 0; row < rows; row += kAttentionRows) {
      t.rows = std::min(kAttentionRows, rows - row);
      t.q = (char*)left.at + size_t(row) * ldq * k.elem;
      t.out = &forward[size_t(row) * head_dim], t.dout = &dout[size_t(row) * head_dim];
      t.lse = &forward[size_t(rows) * head_dim + row], t.positions = &positions[row];
      t.blocks = pages_used, t.k_pages = k_pages.data(), t.v_pages = v_pages.data(), t.dq = &dq[size_t(row) * head_dim];
      k.attention_backward_dq(t);
    }
    t.rows = rows, t.q = left.at, t.out = forward.data(), t.dout = dout.data(), t.lse = &forward[size_t(rows) * head_dim], t.positions = positions.data();
    for (int b = 0; b < pages_used; b++) {
      t.block = b, t.k_pages = &k_pages[b], t.v_pages = &v_pages[b];
      t.dk = &dk[size_t(b) * kPage * head_dim], t.dv = &dv[size_t(b) * kPage * head_dim];
      k.attention_backward_dkv(t);
    }
    dq.insert(dq.end(), dk.begin(), dk.begin() + size_t(keys) * head_dim);
    dq.insert(dq.end(), dv.begin(), dv.begin() + size_t(keys) * head_dim);
    return dq;
  }
};

void test_attention() {
  struct Case {
    int head_dim, keys, rows;
  };
  for (Case c : {Case{8, 70, 9}, {16, 64, 5}, {24, 130, 64}, {32, 300, 33}, {64, 65, 17}, {80, 200, 7}, {96, 100, 3}, {128, 1100, 5}, {256, 90, 6}, {32, 2200, 12}})
    for (DType type : {DType::f32, DType::bf16}) {
      const int hd = c.head_dim;
      const float scale = 1 / std::sqrt(float(hd));
      Floats key = kept(type, normals(size_t(c.keys) * hd)), value = kept(type, normals(size_t(c.keys) * hd)), q = kept(type, normals(size_t(c.rows) * hd, 2)),
             dout = kept(type, normals(size_t(c.rows) * hd));
      std::vector<int32_t> positions;
      for (int r = 0; r < c.rows; r++) positions.push_back(r == 0 ? c.keys - 1 : int(random_bits() % c.keys));
      std::string what = "attention head_dim=" + std::to_string(hd) + " keys=" + std::to_string(c.keys) + " " + name(type);
      Floats all = same_everywhere(type, what, [&](const Kernels& k) {
        Cache cache(k, hd, c.keys, key, value);
        Floats forward = cache.attend(q, positions, scale), back = cache.backward(q, positions, scale, forward, dout);
        forward.insert(forward.end(), back.begin(), back.end());
        return forward;
      });
      // Reference, forward and backward, in double.
      std::vector<double> out(size_t(c.rows) * hd), lse(c.rows), dq(out.size()), dk(size_t(c.keys) * hd), dv(dk.size());
      for (int r = 0; r < c.rows; r++) {
        const int visible = positions[r] + 1;
        std::vector<double> p(visible);
        double top = -1e300, sum = 0, delta = 0;
        for (int i = 0; i < visible; i++) {
          for (int d = 0; d < hd; d++) p[i] += double(q[r * hd + d]) * key[i * hd + d] * scale;
          top = std::fmax(top, p[i]);
        }
        for (double& v : p) sum += v = std::exp(v - top);
        lse[r] = top + std::log(sum);
        for (int i = 0; i < visible; i++) {
          p[i] /= sum;
          for (int d = 0; d < hd; d++) out[r * hd + d] += p[i] * value[i * hd + d];
        }
        for (int d = 0; d < hd; d++) delta += out[r * hd + d] * dout[r * hd + d];
        for (int i = 0; i < visible; i++) {
          double dp = 0;
          for (int d = 0; d < hd; d++) dp += double(dout[r * hd + d]) * value[i * hd + d];
          const double ds = p[i] * (dp - delta) * scale;
          for (int d = 0; d < hd; d++) {
            dq[r * hd + d] += ds * key[i * hd + d];
            dk[i * hd + d] += ds * q[r * hd + d];
            dv[i * hd + d] += p[i] * dout[r * hd + d];
          }
        }
      }
      const double tolerance = type == DType::f32 ? 1e-5 : 1.2e-2;
      std::vector<double> want = out;
      for (auto* part : {&lse, &dq, &dk, &dv}) want.insert(want.end(), part->begin(), part->end());
      near(what, all, want, tolerance);
      // One row alone, in any company, in any order: the same bits.
      for (const Kernels* k : sets(type)) {
        Cache cache(*k, hd, c.keys, key, value);
        bool same = true;
        for (int rows : {1, 2, 3, 5, 8, 13}) {
          Floats some;
          std::vector<int32_t> where, which;
          for (int i = 0; i < rows; i++) {
            int r = int(random_bits() % c.rows);
            which.push_back(r), where.push_back(positions[r]);
            some.insert(some.end(), &q[r * hd], &q[r * hd] + hd);
          }
          Floats got = cache.attend(some, where, scale);
          for (int i = 0; i < rows; i++) {
            same &= !std::memcmp(&got[i * hd], &all[which[i] * hd], hd * 4);
            same &= !std::memcmp(&got[rows * hd + i], &all[c.rows * hd + which[i]], 4);
          }
        }
        expect(same, what + " " + isa_name(k->isa) + ": company changes the bits");
      }
      // Keys that come later do not exist for a row.
      const Kernels& k = *kernels(best_isa(), type);
      const int row = c.rows - 1, seen = positions[row] + 1;
      Cache shorter(k, hd, seen, key, value);
      Floats one = shorter.attend(Floats(&q[row * hd], &q[row * hd] + hd), {positions[row]}, scale);
      expect(!std::memcmp(one.data(), &all[row * hd], hd * 4), what + ": later keys change the bits");
    }
  // Finite differences through the whole of it, float32.
  const Kernels& k = *kernels(best_isa(), DType::f32);
  const int hd = 24, keys = 90, rows = 70;
  const float scale = 0.3f;
  Floats key = normals(keys * hd), value = normals(keys * hd), q = normals(rows * hd), dout = normals(rows * hd);
  std::vector<int32_t> positions;
  for (int r = 0; r < rows; r++) positions.push_back(20 + r);
  auto forward = [&](const Floats& qq, const Floats& kk, const Floats& vv) {
    Cache cache(k, hd, keys, kk, vv);
    Floats a = cache.attend(Floats(qq.begin(), qq.begin() + 64 * hd), {positions.begin(), positions.begin() + 64}, scale);
    Floats b = cache.attend(Floats(qq.begin() + 64 * hd, qq.end()), {positions.begin() + 64, positions.end()}, scale);
    Floats out(a.begin(), a.begin() + 64 * hd);
    out.insert(out.end(), b.begin(), b.begin() + 6 * hd);
    out.insert(out.end(), a.end() - 64, a.end());
    out.insert(out.end(), b.end() - 6, b.end());
    return out;
  };
  auto loss = [&](const Floats& qq, const Floats& kk, const Floats& vv) {
    Floats out = forward(qq, kk, vv);
    out.resize(rows * hd);
    return dot(out, dout);
  };
  Floats grads = Cache(k, hd, keys, key, value).backward(q, positions, scale, forward(q, key, value), dout);
  Floats dq(grads.begin(), grads.begin() + rows * hd), dk(grads.begin() + rows * hd, grads.begin() + (rows + keys) * hd), dv(grads.end() - keys * hd, grads.end());
  check_gradient("attention dq", q, dq, [&](const Floats& v) { return loss(v, key, value); }, 3e-3);
  check_gradient("attention dk", key, dk, [&](const Floats& v) { return loss(q, v, value); }, 3e-3);
  check_gradient("attention dv", value, dv, [&](const Floats& v) { return loss(q, key, v); }, 3e-3);
}

void test_adamw() {
  const int n = 531;
  Floats w0 = normals(n), g[3];
  for (auto& v : g) v = normals(n, 0.02f);
  const double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, decay = 0.1;
  Floats got = same_everywhere(DType::f32, "adamw", [&](const Kernels& k) {
    Floats w = w0, m(n), v(n);
    for (int t = 1; t <= 3; t++)
      k.adamw(w.data(), g[t - 1].data(), m.data(), v.data(), n,
              {lr, beta1, beta2, eps, decay, 1 - std::pow(beta1, t), 1 - std::pow(beta2, t), 0.5});
    w.insert(w.end(), m.begin(), m.end());
    w.insert(w.end(), v.begin(), v.end());
    return w;
  });
  std::vector<double> w(w0.begin(), w0.end()), m(n), v(n);
  for (int t = 1; t <= 3; t++)
    for (int i = 0; i < n; i++) {
      const double grad = 0.5 * g[t - 1][i];
      w[i] *= 1 - lr * decay;
      m[i] = beta1 * m[i] + (1 - beta1) * grad;
      v[i] = beta2 * v[i] + (1 - beta2) * grad * grad;
      w[i] -= lr * (m[i] / (1 - std::pow(beta1, t))) / (std::sqrt(v[i] / (1 - std::pow(beta2, t))) + eps);
    }
  near("adamw w", got, w, 4e-7, 0.1);
  near("adamw m", Floats(got.begin() + n, got.begin() + 2 * n), m, 3e-7, 1e-3);
  near("adamw v", Floats(got.begin() + 2 * n, got.end()), v, 3e-7, 1e-7);
}

void test_float_mode() {
  volatile float tiny = 1e-38f, half = 0.25f;
  const float before = tiny * half;
  {
    FloatMode nested;
    expect(tiny * half == 0, "denormals flushed");
  }
  expect(tiny * half == before, "mode restored");
}

// Processor time of this thread: what other processes take meanwhile does not count.
double seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

// Best time of one call over about 0.2 s.
double best_time(const std::function<void()>& call) {
  double best = 1e9;
  const double start = seconds();
  for (int i = 0; i < 3 || seconds() - start < 0.2; i++) {
    const double t = seconds();
    call();
    best = std::fmin(best, seconds() - t);
  }
  return best;
}

void bench_gemm(DType type, int n, int k, std::initializer_list<int> row_counts) {
  for (const Kernels* kernel : sets(type)) {
    std::printf("gemm %s %-10s N=%d K=%d:", name(type), isa_name(kernel->isa), n, k);
    // Enough copies of the weights that one row reads them from memory.
    const int copies = int(std::max<size_t>(1, (64 << 20) / (size_t(n) * k * kernel->elem)));
    std::vector<Block> weights;
    for (int i = 0; i < copies; i++) weights.push_back(packed(*kernel, normals(size_t(n) * k), n, k));
    for (int m : row_counts) {
      if (kernel->isa == Isa::portable && m > 64) continue;
      Block a = rounded(*kernel, normals(size_t(m) * k), m, k, k);
      Floats c(size_t(m) * n);
      int at = 0;
      double t = best_time([&] { kernel->gemm(a.at, k, m, weights[at++ % copies].at, k, n / 16, c.data(), n, false); });
      std::printf("  m=%d %.1f GFLOP/s", m, 2.0 * m * n * k / t / 1e9);
      if (m == 1) std::printf(" (%.0f GB/s)", double(n) * k * kernel->elem / t / 1e9);
    }
    std::printf("\n");
  }
}

// What one thread reads from memory.
void bench_memory() {
  const Kernels& k = *kernels(best_isa(), DType::f32);
  Floats x(size_t(64) << 20, 1.0f);
  std::printf("memory read: %.1f GB/s\n", x.size() * 4 / best_time([&] { k.sum_squares(x.data(), int64_t(x.size())); }) / 1e9);
}

void bench_attention(DType type, int hd, int keys, int rows) {
  for (const Kernels* k : sets(type)) {
    if (k->isa == Isa::portable) continue;
    Cache cache(*k, hd, keys, normals(size_t(keys) * hd), normals(size_t(keys) * hd));
    Floats q = normals(size_t(rows) * hd), out(size_t(rows) * hd), lse(rows), dout = normals(size_t(rows) * hd), dk(64 * hd), dv(64 * hd), dq(size_t(rows) * hd);
    std::vector<int32_t> positions(rows, keys - 1);
    Block left = rounded(*k, q, rows, hd, hd), scratch(k->attention_scratch(hd)), back(k->attention_backward_scratch(hd));
    AttentionTask t{rows, hd, 0.1f, left.at, hd, positions.data(), keys / kPage, cache.k_pages.data(), cache.v_pages.data(), out.data(), hd, lse.data(), scratch.at};
    const double forward = best_time([&] { k->attention(t); });
    AttentionBackwardTask b{rows, hd, 0.1f, left.at, hd, out.data(), hd, dout.data(), hd, lse.data(), positions.data(), keys / kPage, cache.k_pages.data(),
                            cache.v_pages.data(), dq.data(), hd, 0, dk.data(), dv.data(), hd, back.at};
    const double time_dq = best_time([&] { k->attention_backward_dq(b); }), time_dkv = best_time([&] { k->attention_backward_dkv(b); }) * (keys / kPage);
    const double flop = 4.0 * rows * keys * hd;
    std::printf("attention %s %-10s head_dim=%d keys=%d rows=%d: forward %.0f GFLOP/s (%.1f GB/s of pages), dq %.0f, dkv %.0f GFLOP/s\n", name(type), isa_name(k->isa), hd,
                keys, rows, flop / forward / 1e9, 2.0 * keys * hd * k->elem / forward / 1e9, 1.5 * flop / time_dq / 1e9, 2 * flop / time_dkv / 1e9);
  }
}

void bench_elementwise(DType type) {
  for (const Kernels* k : sets(type)) {
    const int rows = 256, n = 192, wide = 576, heads = 6, hd = 32, vocab = 4096;
    Floats x = normals(size_t(rows) * wide), w = normals(wide), dx(x.size()), dw(wide), c = normals(16), s = normals(16), y(x.size()), logits = normals(vocab);
    Block t = rounded(*k, x, rows, wide, wide), u(t.bytes), v(size_t(rows) * vocab * 4);
    auto rate = [&](const char* what, double elements, const std::function<void()>& call) { std::printf("  %s %.2f", what, elements / best_time(call) / 1e9); };
    std::printf("%s %-10s elements per ns:", name(type), isa_name(k->isa));
    rate("rmsnorm", rows * n, [&] { k->rmsnorm(x.data(), n, w.data(), 1e-5f, rows, n, u.at, n); });
    rate("its gradient", rows * n, [&] { k->rmsnorm_backward(x.data(), n, w.data(), 1e-5f, x.data(), n, rows, n, dx.data(), n, dw.data()); });
    rate("rope", rows * n, [&] {
      for (int r = 0; r < rows; r++) k->head_norm_rope((char*)t.at + size_t(r) * n * k->elem, hd, heads, hd, nullptr, 0, c.data(), s.data(), y.data());
    });
    rate("norm+rope", rows * n, [&] {
      for (int r = 0; r < rows; r++) k->head_norm_rope((char*)t.at + size_t(r) * n * k->elem, hd, heads, hd, w.data(), 1e-6f, c.data(), s.data(), y.data());
    });
    rate("silu", rows * wide, [&] { k->silu_mul(t.at, t.at, wide, rows, wide, u.at, wide); });
    rate("its gradient", rows * wide, [&] { k->silu_mul_backward(t.at, t.at, wide, x.data(), wide, rows, wide, dx.data(), y.data(), wide); });
    rate("log_sum_exp", vocab, [&] { k->log_sum_exp(logits.data(), vocab); });
    rate("softmax_residual", vocab, [&] { k->softmax_residual(logits.data(), vocab, 9, 5, 1, v.at, vocab); });
    rate("round", rows * wide, [&] { k->round_rows(x.data(), wide, rows, wide, 1, u.at, wide); });
    rate("transpose", rows * wide, [&] { k->transpose(x.data(), DType::f32, wide, rows, wide, v.at, rows); });
    rate("pack_transposed", rows * wide, [&] { k->pack_transposed(t.at, type, wide, rows, wide, v.at); });
    rate("transpose_panels", rows * wide, [&] { k->transpose_panels(t.at, rows, wide, 0, wide, 0, rows, v.at); });
    rate("pack", rows * wide, [&] { k->pack(x.data(), DType::f32, wide, rows, wide, v.at); });
    rate("kv_write", rows * hd, [&] {
      for (int r = 0; r < rows; r++) k->kv_write(x.data(), x.data(), r % 64, hd, v.at, u.at);
    });
    rate("adamw", rows * wide, [&] { k->adamw(x.data(), y.data(), dx.data(), (float*)v.at, rows * wide, {1e-3, 0.9, 0.99, 1e-8, 0.01, 1, 1, 1}); });
    std::printf("\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  FloatMode mode;
  std::printf("best: %s\n", isa_name(best_isa()));
  if (argc > 1 && !std::strcmp(argv[1], "--bench")) {
    bench_memory();
    for (DType type : {DType::bf16, DType::f32}) {
      bench_gemm(type, 3072, 1024, {1, 8, 16, 64, 512});
      bench_gemm(type, 192, 192, {64, 512, 4096});
      bench_gemm(type, 576, 192, {64, 512, 4096});
      bench_gemm(type, 192, 576, {64, 512, 4096});
      bench_gemm(type, 192, 4096, {192, 576});
      bench_attention(type, 32, 256, 64);
      bench_attention(type, 128, 512, 64);
      bench_attention(type, 128, 16384, 2);
      bench_elementwise(type);
    }
    return 0;
  }
  test_float_mode();
  test_rounding();
  test_products_of_any_bits();
  test_panels();
  test_gemm();
  test_exp_log();
  test_logits();
  test_sums();
  test_rmsnorm();
  test_rope();
  test_silu();
  test_attention();
  test_adamw();
  std::printf("%d checks, %d failed\n", checks, failures);
  return failures ? 1 : 0;
}
