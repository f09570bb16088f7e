// Rounding, panels and products: exact layouts and exact bits on every instruction set, for every row count.
#include "kernels_fixture.h"

namespace anneal::cpu::test {
namespace {

void test_rounding() {
  Floats x;
  for (int i = 0; i < 200000; i++) {
    uint32_t u = uint32_t(random_bits());
    float f;
    std::memcpy(&f, &u, 4);
    x.push_back(f);
  }
  for (uint32_t u : {0u, 0x80000000u, 1u, 0x007fffffu, 0x00800000u, 0x7f7fffffu, 0x7f800000u, 0xff800000u, 0x7f800001u,
                     0x7fffffffu, 0x3f808000u, 0x3f818000u}) {
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
        int exponent = style == 0   ? int(random_bits() % 256)            // anything
                       : style == 1 ? 127 + int(random_bits() % 41) - 20  // sums that cancel and round
                       : style == 2 ? 40 + int(random_bits() % 30)        // products around the smallest normal numbers
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
    for (auto [n, k] :
         {std::pair{1, 1}, {16, 2}, {17, 7}, {48, 64}, {33, 31}, {80, 24}, {112, 515}, {192, 192}, {64, 5003}}) {
      // More rows than a block has.
      const int rows = 200, width = int(panels_of(n)) * 16, lda = (k + 3) & ~1;
      Floats a = kept(type, normals(size_t(rows) * k)), w = kept(type, normals(size_t(n) * k)),
             c0 = normals(size_t(rows) * width);
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
          kernel->gemm((char*)left.at + size_t(first) * lda * kernel->elem, lda, m, right.at, k, int(panels_of(n)),
                       c.data(), width, false);
          same &= !std::memcmp(c.data(), &all[size_t(first) * width], c.size() * 4);
          // And any split of the panels.
          for (int p = 0; p < panels_of(n); p++) {
            Floats part(size_t(m) * 16);
            kernel->gemm((char*)left.at + size_t(first) * lda * kernel->elem, lda, m,
                         (char*)right.at + p * panel_bytes(*kernel, k), k, 1, part.data(), 16, false);
            for (int r = 0; r < m; r++)
              same &= !std::memcmp(&part[r * 16], &all[size_t(first + r) * width + p * 16], 64);
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
            good &= flat[size_t(j / 16) * deep * 16 + i / step * 16 * step + j % 16 * step + i % step] ==
                    (j < n && i < k ? w[j * k + i] : 0);
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

}  // namespace

// The fast family's sums, as Intel's manual describes TDPBF16PS: one number at a time.
void test_sums_of_tiles() {
  for (auto [n, k] : {std::pair{16, 2}, {17, 7}, {48, 64}, {33, 31}, {80, 24}, {112, 515}, {64, 2100}}) {
    const int rows = 37, width = int(panels_of(n)) * 16, lda = (k + 3) & ~1;
    const Floats a = kept(DType::bf16, normals(size_t(rows) * k)), w = kept(DType::bf16, normals(size_t(n) * k)),
                 c0 = normals(size_t(rows) * width);
    Floats want = c0;
    for (int r = 0; r < rows; r++)
      for (int j = 0; j < n; j++) {
        float& c = want[size_t(r) * width + j];
        for (int k0 = 0; k0 < k; k0 += 32) {
          float sums[2] = {};
          for (int i = k0; i < std::min(k, k0 + 32); i++)
            sums[i % 2] = std::fma(a[size_t(r) * k + i], w[size_t(j) * k + i], sums[i % 2]);
          c += sums[0] + sums[1];
        }
      }
    for (const Kernels* kernel : sets(DType::bf16)) {
      Block left = rounded(*kernel, a, rows, k, lda), right = packed(*kernel, w, n, k);
      Floats got = c0;
      kernel->gemm(left.at, lda, rows, right.at, k, int(panels_of(n)), got.data(), width, true);
      bool same = true;
      for (int r = 0; r < rows; r++) same &= !std::memcmp(&got[r * width], &want[r * width], size_t(n) * 4);
      expect(same, "sums of tiles n=" + std::to_string(n) + " k=" + std::to_string(k) + " " + isa_name(kernel->isa));
    }
  }
}

void test_products() {
  test_rounding();
  test_products_of_any_bits();
  test_panels();
  test_gemm();
}

}  // namespace anneal::cpu::test
