// What the test and bench programs of the kernels share: random data, comparisons, and the kernels' formats made from
// plain floats.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "../../../expect_fixture.h"
#include "kernels.h"

namespace anneal::cpu::test {

using Floats = std::vector<float>;
using model::KvCache;

using anneal::checks, anneal::failures, anneal::expect;
constexpr uint64_t kSeed = 20240607;
inline std::mt19937_64 random_bits(kSeed);

inline float normal() { return std::normal_distribution<float>()(random_bits); }
inline Floats normals(size_t n, float scale = 1) {
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

// Which family is tried.
inline bool is_fast_family = false;
inline std::vector<const Kernels*> sets(DType type) {
  std::vector<const Kernels*> all;
  for (Isa isa : is_fast_family ? std::span<const Isa>(kFastIsas) : std::span<const Isa>(kIsas))
    if (const Kernels* k = kernels(isa, type)) all.push_back(k);
  return all;
}
inline const char* name(DType t) { return t == DType::f32 ? "float32" : "bfloat16"; }

// Runs on every instruction set of the family; all must give the bits of the first one, which are returned. NaNs count
// as equal.
inline Floats same_everywhere(DType type, const std::string& what, const std::function<Floats(const Kernels&)>& run) {
  Floats first;
  const Kernels* reference = nullptr;
  for (const Kernels* k : sets(type)) {
    Floats got = run(*k);
    if (!reference) {
      first = got, reference = k;
      continue;
    }
    size_t bad = 0, at = 0;
    for (size_t i = 0; i < got.size(); i++)
      if (std::memcmp(&got[i], &first[i], 4) && !(std::isnan(got[i]) && std::isnan(first[i]))) {
        if (!bad++) at = i;
      }
    char text[256];
    std::snprintf(text, sizeof text, "%s %s: %s differs from %s in %zu of %zu (first at %zu: %.9g, %.9g)", what.c_str(),
                  name(type), isa_name(k->isa), isa_name(reference->isa), bad, got.size(), at, bad ? got[at] : 0,
                  bad ? first[at] : 0);
    expect(!bad && got.size() == first.size(), text);
  }
  return first;
}

// |got - want| <= tolerance * (|want| + unit).
inline void near(const std::string& what, const Floats& got, const std::vector<double>& want, double tolerance,
                 double unit = 1) {
  double worst = 0;
  size_t at = 0;
  for (size_t i = 0; i < want.size(); i++) {
    double e = std::fabs(got[i] - want[i]) / (std::fabs(want[i]) + unit);
    if (!(e <= worst)) worst = e, at = i;
  }
  char text[256];
  std::snprintf(text, sizeof text, "%s: error %.3g over %.3g (at %zu: %.9g, want %.9g)", what.c_str(), worst, tolerance,
                at, want.empty() ? 0 : got[at], want.empty() ? 0 : want[at]);
  expect(got.size() >= want.size() && worst <= tolerance, text);
}

// Rows of floats in the compute type, ld elements each, zero padded; and back.
inline Block rounded(const Kernels& k, const Floats& x, int rows, int cols, int ld) {
  Block b(size_t(rows) * ld * k.elem + 64);
  k.round_rows(x.data(), cols, rows, cols, 1, b.at, ld);
  return b;
}
inline Floats widened(const Kernels& k, const void* x, int rows, int cols, int ld) {
  Floats y(size_t(rows) * cols);
  k.widen_rows(x, ld, rows, cols, y.data(), cols);
  return y;
}
// What the compute type keeps of x, independently of the kernels.
inline float kept(DType type, float x) {
  if (type == DType::f32) return x;
  uint32_t u;
  std::memcpy(&u, &x, 4);
  if (std::isnan(x))
    u |= 0x400000;
  else if ((u & 0x7f800000) == 0)
    u &= 0x80000000u;
  else
    u += 0x7fff + ((u >> 16) & 1);
  u &= 0xffff0000u;
  std::memcpy(&x, &u, 4);
  return x;
}
inline Floats kept(DType type, Floats x) {
  for (float& v : x) v = kept(type, v);
  return x;
}
inline Block packed(const Kernels& k, const Floats& w, int n, int depth) {
  Block b(panels_of(n) * panel_bytes(k, depth) + 64);
  k.pack(w.data(), DType::f32, depth, n, depth, b.at);
  return b;
}

// d/dx of `loss` at x by central differences, compared with `gradient`.
inline void check_gradient(const std::string& what, Floats x, const Floats& gradient,
                           const std::function<double(const Floats&)>& loss, double tolerance) {
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
inline double dot(const Floats& a, const Floats& b) {
  double s = 0;
  for (size_t i = 0; i < a.size(); i++) s += double(a[i]) * b[i];
  return s;
}

// What an int8 cache keeps of rows of n numbers, independently of the kernels.
inline Floats coded(Floats x, int n) {
  for (size_t row = 0; row < x.size(); row += n) {
    float most = 0;
    for (int i = 0; i < n; i++) most = std::fmax(most, std::fabs(x[row + i]));
    for (int i = 0; i < n && most > 0; i++) x[row + i] = std::nearbyint(x[row + i] * (127 / most)) * (most / 127);
  }
  return x;
}
inline Floats kept_by(KvCache format, DType type, const Floats& x, int head_dim) {
  return format == KvCache::int8 ? coded(x, head_dim) : kept(type, x);
}

// One sequence's keys and values in pages, and attention over it for any rows.
struct Cache {
  const Kernels& k;
  const AttentionKernels& over;
  int head_dim, keys;
  std::vector<Block> pages;
  std::vector<const void*> k_pages, v_pages;
  AttentionSight sight = {};
  float sink = -INFINITY;  // none

  Cache(const Kernels& kernel, int hd, int count, const Floats& key, const Floats& value,
        KvCache format = KvCache::exact)
      : k(kernel), over(k.attention_over(format)), head_dim(hd), keys(count) {
    for (int i = 0; i < keys; i++) {
      if (i % kPage == 0)
        for (int side = 0; side < 2; side++) {
          pages.emplace_back(over.page_bytes(hd));
          (side ? v_pages : k_pages).push_back(pages.back().at);
        }
      over.kv_write(&key[size_t(i) * hd], &value[size_t(i) * hd], i % kPage, hd, (void*)k_pages.back(),
                    (void*)v_pages.back());
    }
  }
  AttentionSight seen_from(int lowest) const {
    AttentionSight s = sight;
    if (s.window) s.first = std::max(0, lowest - s.window + 1) / kPage;
    return s;
  }
  // How the blocks are given to tasks: all to one; those before `shared` for all rows together, the others for each row
  // alone; each segment to a task of its own.
  struct Cut {
    int shared = 0;
    bool by_segments = false;
  };
  // out [rows][head_dim], then lse [rows].
  Floats attend(const Floats& q, const std::vector<int32_t>& positions, float scale, Cut cut) const {
    const int rows = int(positions.size()), ldq = round_up(head_dim, 2) + 2, ldo = head_dim + 1;
    Block left = rounded(k, q, rows, head_dim, ldq), scratch(over.attention_scratch(head_dim));
    Floats out(size_t(rows) * ldo), lse(rows);
    int last = 0, lowest = keys;
    for (int p : positions) last = std::max(last, p), lowest = std::min(lowest, p);
    AttentionTask t{rows,           head_dim,       scale,      left.at, ldq,        positions.data(), last / kPage + 1,
                    k_pages.data(), v_pages.data(), out.data(), ldo,     lse.data(), scratch.at};
    t.sight = seen_from(lowest);
    if (sink > -INFINITY) t.sinks = &sink;
    const int64_t state = attention_state_floats(head_dim);
    if (cut.by_segments) {
      const AttentionTask whole = t;
      std::vector<Floats> saved;
      for (int begin = 0; begin < whole.blocks; begin += kSegment / kPage) {
        saved.emplace_back(size_t(rows) * state);
        t.begin = begin, t.blocks = std::min(whole.blocks, begin + kSegment / kPage), t.save = saved.back().data();
        over.attention(t);
      }
      std::vector<const float*> parts;
      for (const Floats& part : saved) parts.push_back(part.data());
      t = whole, t.begin = whole.blocks, t.resume = parts.data(), t.resumed = int(parts.size());
      over.attention(t);
    } else if (cut.shared > 0) {
      Floats saved(size_t(rows) * state);
      const AttentionTask whole = t;
      t.save = saved.data(), t.blocks = cut.shared / 2;
      if (t.blocks > 0) over.attention(t);
      const float* from = saved.data();
      if (t.blocks > 0) t.begin = t.blocks, t.resume = &from, t.resumed = 1;
      t.blocks = cut.shared;
      over.attention(t);
      for (int r = 0; r < rows; r++) {
        t = whole, t.rows = 1, t.begin = cut.shared, from = &saved[r * state], t.resume = &from, t.resumed = 1;
        t.q = (char*)left.at + size_t(r) * ldq * k.elem, t.positions = &positions[r];
        t.blocks = std::max(cut.shared, positions[r] / kPage) + 1;
        t.out = &out[r * ldo], t.lse = &lse[r];
        over.attention(t);
      }
    } else {
      over.attention(t);
    }
    Floats result;
    for (int r = 0; r < rows; r++) result.insert(result.end(), &out[r * ldo], &out[r * ldo] + head_dim);
    result.insert(result.end(), lse.begin(), lse.end());
    return result;
  }
  Floats attend(const Floats& q, const std::vector<int32_t>& positions, float scale) const {
    return attend(q, positions, scale, {});
  }
  // dq [rows][hd], then dk, dv [keys][hd]; in tasks of so many rows and key blocks.
  Floats backward(const Floats& q, const std::vector<int32_t>& positions, float scale, const Floats& forward,
                  const Floats& dout, int most_rows = kAttentionBackwardRows, int most_blocks = 1 << 20) const {
    const int rows = int(positions.size()), ld = round_up(head_dim, 2) + 2, width = round_up(head_dim, kLanes),
              pages_used = int(k_pages.size());
    Block left = rounded(k, q, rows, head_dim, ld), right = rounded(k, dout, rows, head_dim, ld),
          out = rounded(k, Floats(forward.begin(), forward.begin() + size_t(rows) * head_dim), rows, head_dim, ld),
          scratch(over.attention_backward_scratch(head_dim));
    Floats dq(size_t(rows) * width), dk(size_t(pages_used) * kPage * width), dv = dk, delta(rows);
    k.row_dots(right.at, ld, out.at, ld, rows, head_dim, delta.data());
    std::vector<float*> dk_pages, dv_pages;
    for (int b = 0; b < pages_used; b++)
      dk_pages.push_back(&dk[size_t(b) * kPage * width]), dv_pages.push_back(&dv[size_t(b) * kPage * width]);
    AttentionBackwardTask t{};
    t.head_dim = head_dim, t.scale = scale, t.ldq = t.lddo = ld, t.lddq = t.lddkv = width, t.scratch = scratch.at,
    t.sight = sight;
    for (int row = 0; row < rows; row += most_rows)
      for (t.block = 0; t.block < pages_used; t.block += most_blocks) {
        t.rows = std::min(most_rows, rows - row), t.blocks = std::min(most_blocks, pages_used - t.block);
        t.q = (char*)left.at + size_t(row) * ld * k.elem, t.dout = (char*)right.at + size_t(row) * ld * k.elem;
        t.delta = &delta[row], t.lse = &forward[size_t(rows) * head_dim + row], t.positions = &positions[row];
        t.k_pages = &k_pages[t.block], t.v_pages = &v_pages[t.block];
        t.dq = &dq[size_t(row) * width], t.dk = &dk_pages[t.block], t.dv = &dv_pages[t.block];
        over.attention_backward(t);
      }
    Floats result;
    for (const auto& [values, count] : {std::pair(&dq, rows), std::pair(&dk, keys), std::pair(&dv, keys)})
      for (int r = 0; r < count; r++)
        result.insert(result.end(), values->data() + r * width, values->data() + r * width + head_dim);
    return result;
  }
};

}  // namespace anneal::cpu::test
