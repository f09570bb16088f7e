// Attention over pages: against a double reference, alone and in company, and its gradients.
#include "kernels_fixture.h"

namespace anneal::cpu::test {
namespace {

void test_attention_cases(KvCache format) {
  struct Case {
    int head_dim, keys, rows, window = 0;
    float soft_cap = 0;
    float sink = -INFINITY;
  };
  for (Case c : {Case{8, 70, 9},
                 {16, 64, 5},
                 {24, 130, 64},
                 {32, 300, 33},
                 {64, 65, 17},
                 {80, 200, 7},
                 {96, 100, 3},
                 {128, 1100, 5},
                 {256, 90, 6},
                 {32, 2200, 12},
                 {24, 200, 40, 33},
                 {16, 300, 64, 64},
                 {40, 2200, 20, 70},
                 {32, 2200, 12, 1500},
                 {48, 130, 30, 1},
                 {64, 150, 9, 0, 3},
                 {32, 300, 33, 100, 1.5f},
                 {64, 2200, 17, 0, 0, 0.5f},
                 {32, 300, 33, 100, 1.5f, 30}})
    for (DType type : {DType::f32, DType::bf16}) {
      // The same numbers on every machine, however many kernel sets drew some in the case before: tolerances are
      // measured.
      random_bits.seed(kSeed);
      const int hd = c.head_dim;
      const float scale = 1 / std::sqrt(float(hd));
      const Floats given_key = normals(size_t(c.keys) * hd), given_value = normals(size_t(c.keys) * hd),
                   key = kept_by(format, type, given_key, hd), value = kept_by(format, type, given_value, hd),
                   q = kept(type, normals(size_t(c.rows) * hd, 2)), dout = kept(type, normals(size_t(c.rows) * hd));
      std::vector<int32_t> positions;
      for (int r = 0; r < c.rows; r++) positions.push_back(r == 0 ? c.keys - 1 : int(random_bits() % c.keys));
      std::string what = std::string("attention ") + (format == KvCache::int8 ? "over int8 " : "") +
                         "head_dim=" + std::to_string(hd) + " keys=" + std::to_string(c.keys) +
                         " window=" + std::to_string(c.window) + " " + name(type);
      const AttentionSight sight{c.window, 0, c.soft_cap};
      Floats all = same_everywhere(type, what, [&](const Kernels& k) {
        Cache cache(k, hd, c.keys, given_key, given_value, format);
        cache.sight = sight, cache.sink = c.sink;
        Floats forward = cache.attend(q, positions, scale), back = cache.backward(q, positions, scale, forward, dout);
        for (int rows : {64, 128})
          for (int blocks : {1, 3}) {
            const Floats cut = cache.backward(q, positions, scale, forward, dout, rows, blocks);
            expect(!std::memcmp(cut.data(), back.data(), back.size() * 4),
                   what + ": cutting gradients changes the bits");
          }
        forward.insert(forward.end(), back.begin(), back.end());
        return forward;
      });
      // Reference, forward and backward, in double.
      std::vector<double> out(size_t(c.rows) * hd), lse(c.rows), dq(out.size()), dk(size_t(c.keys) * hd), dv(dk.size());
      for (int r = 0; r < c.rows; r++) {
        const int visible = positions[r] + 1, from = c.window ? std::max(0, visible - c.window) : 0;
        std::vector<double> p(visible), slope(visible, scale);
        double top = c.sink, sum = 0, delta = 0;
        for (int i = from; i < visible; i++) {
          for (int d = 0; d < hd; d++) p[i] += double(q[r * hd + d]) * key[i * hd + d] * scale;
          if (c.soft_cap > 0) {
            const double t = std::tanh(p[i] / c.soft_cap);
            p[i] = c.soft_cap * t, slope[i] *= 1 - t * t;
          }
          top = std::fmax(top, p[i]);
        }
        for (int i = from; i < visible; i++) sum += p[i] = std::exp(p[i] - top);
        sum += std::exp(c.sink - top);
        lse[r] = top + std::log(sum);
        for (int i = from; i < visible; i++) {
          p[i] /= sum;
          for (int d = 0; d < hd; d++) out[r * hd + d] += p[i] * value[i * hd + d];
        }
        for (int d = 0; d < hd; d++) delta += out[r * hd + d] * dout[r * hd + d];
        for (int i = from; i < visible; i++) {
          double dp = 0;
          for (int d = 0; d < hd; d++) dp += double(dout[r * hd + d]) * value[i * hd + d];
          const double ds = p[i] * (dp - delta) * slope[i];
          for (int d = 0; d < hd; d++) {
            dq[r * hd + d] += ds * key[i * hd + d];
            dk[i * hd + d] += ds * q[r * hd + d];
            dv[i * hd + d] += p[i] * dout[r * hd + d];
          }
        }
      }
      // With codes no probability, not even 1, is exact in bfloat16 once it is times a scale.
      const double tolerance = type == DType::f32 ? 1e-5 : format == KvCache::int8 ? 4.5e-2 : 1.2e-2;
      std::vector<double> want = out;
      for (auto* part : {&lse, &dq, &dk, &dv}) want.insert(want.end(), part->begin(), part->end());
      near(what, all, want, tolerance);
      // One row alone, in any company, in any order: the same bits.
      for (const Kernels* k : sets(type)) {
        Cache cache(*k, hd, c.keys, given_key, given_value, format);
        cache.sight = sight, cache.sink = c.sink;
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
        // The same bits, too, where tasks hand on the rows' states.
        const int blocks = int(cache.k_pages.size());
        const size_t bytes = size_t(c.rows) * (hd + 1) * sizeof(float);
        const auto same_when_cut = [&](Cache::Cut cut) {
          return std::memcmp(cache.attend(q, positions, scale, cut).data(), all.data(), bytes) == 0;
        };
        if (c.window == 0) {
          expect(same_when_cut({0, true}), what + " " + isa_name(k->isa) + ": segments apart change the bits");
          for (int shared : {1, blocks / 2, blocks - 1, kSegment / kPage})
            expect(shared == 0 || shared >= blocks || same_when_cut({shared}),
                   what + " " + isa_name(k->isa) + ": " + std::to_string(shared) + " shared blocks change the bits");
        }
      }
      // Keys that come later do not exist for a row.
      const Kernels& k = *sets(type).back();
      const int row = c.rows - 1, seen = positions[row] + 1;
      Cache shorter(k, hd, seen, given_key, given_value, format);
      shorter.sight = sight, shorter.sink = c.sink;
      Floats one = shorter.attend(Floats(&q[row * hd], &q[row * hd] + hd), {positions[row]}, scale);
      expect(!std::memcmp(one.data(), &all[row * hd], hd * 4), what + ": later keys change the bits");
      // Nor do those before its window, whatever was there.
      if (c.window == 0) continue;
      Floats gone = given_key;
      for (int i = 0; i < (seen - c.window) * hd; i++) gone[i] = normal() * 100;
      Cache passed(k, hd, seen, gone, given_value, format);
      passed.sight = sight, passed.sink = c.sink;
      Floats late = passed.attend(Floats(&q[row * hd], &q[row * hd] + hd), {positions[row]}, scale);
      expect(!std::memcmp(late.data(), &all[row * hd], hd * 4), what + ": keys before the window change the bits");
    }
}

// Heads that go through the blocks together, and each alone: the same bits.
void test_heads_together(KvCache format) {
  const int heads = 3, blocks = 18, last = (blocks - 1) * kPage + 20;  // more than a segment, and a part of a block
  for (DType type : {DType::f32, DType::bf16})
    for (int hd : {24, 64})
      for (int rows : {1, 3, 7, 20})
        for (const Kernels* k : sets(type)) {
          const AttentionKernels& over = k->attention_over(format);
          const size_t page = over.page_bytes(hd), head_page = 2 * page + 128;
          Block memory(blocks * heads * head_page), scratch(over.attention_scratch(hd));
          std::vector<const void*> k_pages, v_pages;
          for (int b = 0; b < blocks; b++) {
            char* const block = (char*)memory.at + (blocks - 1 - b) * heads * head_page;
            k_pages.push_back(block), v_pages.push_back(block + page);
            for (int h = 0; h < heads; h++)
              for (int slot = 0; slot < kPage; slot++)
                over.kv_write(normals(hd).data(), normals(hd).data(), slot, hd, block + h * head_page,
                              block + h * head_page + page);
          }
          const int apart = rows + 2;  // rows from one head to the next
          Block q = rounded(*k, normals(size_t(heads) * apart * hd), heads * apart, hd, hd);
          std::vector<int32_t> positions;
          for (int r = 0; r < rows; r++) positions.push_back(last - r);
          Floats out(size_t(heads) * rows * hd), lse(size_t(heads) * apart), want(out), want_lse(lse);
          AttentionTask t{
              rows,           hd,         0.2f, q.at,       hd,        positions.data(), blocks, k_pages.data(),
              v_pages.data(), out.data(), hd,   lse.data(), scratch.at};
          const Floats sinks = normals(size_t(heads) * 3);
          t.sinks = sinks.data(), t.group = 3;
          t.heads = heads, t.head_queries = int64_t(apart) * hd, t.head_page = int64_t(head_page), t.head_lse = apart;
          over.attention(t);
          for (int h = 0; h < heads; h++) {
            AttentionTask one = t;
            one.heads = 1, one.sinks = &sinks[size_t(h) * 3];
            one.q = (char*)q.at + size_t(h) * apart * hd * k->elem;
            one.out = &want[size_t(h) * rows * hd], one.lse = &want_lse[size_t(h) * apart];
            for (auto* pages : {&k_pages, &v_pages})
              for (const void*& at : *pages) at = (const char*)at + (h > 0 ? head_page : 0);
            over.attention(one);
          }
          expect(!std::memcmp(out.data(), want.data(), out.size() * sizeof(float)) &&
                     !std::memcmp(lse.data(), want_lse.data(), lse.size() * sizeof(float)),
                 std::string("attention of heads together ") + isa_name(k->isa) + " " + name(type));
        }
}

// Finite differences through the whole of it, float32.
void test_attention_gradient() {
  const Kernels& k = *kernels(best_isa(), DType::f32);
  const int hd = 24, keys = 90, rows = 70;
  const float scale = 0.3f;
  Floats key = normals(keys * hd), value = normals(keys * hd), q = normals(rows * hd), dout = normals(rows * hd);
  std::vector<int32_t> positions;
  for (int r = 0; r < rows; r++) positions.push_back(20 + r);
  auto forward = [&](const Floats& qq, const Floats& kk, const Floats& vv) {
    Cache cache(k, hd, keys, kk, vv);
    Floats a =
        cache.attend(Floats(qq.begin(), qq.begin() + 64 * hd), {positions.begin(), positions.begin() + 64}, scale);
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
  for (int most_rows : {64, kAttentionBackwardRows})
    for (int most_blocks : {1, 2})
      expect(Cache(k, hd, keys, key, value)
                     .backward(q, positions, scale, forward(q, key, value), dout, most_rows, most_blocks) == grads,
             "cutting the gradients of attention changes the bits");
  Floats dq(grads.begin(), grads.begin() + rows * hd),
      dk(grads.begin() + rows * hd, grads.begin() + (rows + keys) * hd), dv(grads.end() - keys * hd, grads.end());
  check_gradient("attention dq", q, dq, [&](const Floats& v) { return loss(v, key, value); }, 3e-3);
  check_gradient("attention dk", key, dk, [&](const Floats& v) { return loss(q, v, value); }, 3e-3);
  check_gradient("attention dv", value, dv, [&](const Floats& v) { return loss(q, key, v); }, 3e-3);
}

// More rows and blocks than gradients take up at a time: cut as they may be, on every set, the same bits.
void test_long_gradient(KvCache format) {
  const int hd = 40, keys = 600, rows = 330;
  const float scale = 0.2f;
  for (DType type : {DType::f32, DType::bf16})
    for (int window : {0, 90}) {
      const Floats key = normals(keys * hd), value = normals(keys * hd), q = normals(rows * hd),
                   dout = normals(rows * hd);
      const std::string what = std::string("long gradient of attention ") + name(type) + (window ? " in a window" : "");
      same_everywhere(type, what, [&](const Kernels& k) {
        Cache cache(k, hd, keys, key, value, format);
        cache.sight.window = window;
        std::vector<int32_t> positions;
        for (int r = 0; r < rows; r++) positions.push_back(keys - rows + r);
        Floats forward, lse;
        for (int r = 0; r < rows; r += kAttentionRows) {
          const int end = std::min(rows, r + kAttentionRows);
          const Floats some = cache.attend(Floats(&q[r * hd], &q[r * hd] + (end - r) * hd),
                                           {positions.begin() + r, positions.begin() + end}, scale);
          forward.insert(forward.end(), some.begin(), some.end() - (end - r));
          lse.insert(lse.end(), some.end() - (end - r), some.end());
        }
        forward.insert(forward.end(), lse.begin(), lse.end());
        const Floats back = cache.backward(q, positions, scale, forward, dout);
        for (int most_rows : {64, 192})
          for (int most_blocks : {1, 3})
            expect(!std::memcmp(cache.backward(q, positions, scale, forward, dout, most_rows, most_blocks).data(),
                                back.data(), back.size() * sizeof(float)),
                   what + ": cutting it changes the bits");
        return back;
      });
    }
}

// Pages of codes: what has no code, and what is not seen.
void test_int8_pages() {
  const int hd = 24, keys = 64;
  Floats key = normals(keys * hd), value = normals(keys * hd), q = normals(2 * hd);
  for (DType type : {DType::f32, DType::bf16})
    for (const Kernels* k : sets(type)) {
      const std::string what = std::string("int8 pages ") + name(type) + " " + isa_name(k->isa) + ": ";
      const auto attend = [&](const Floats& keys_of, const Floats& values) {
        return Cache(*k, hd, keys, keys_of, values, KvCache::int8).attend(q, {40, 50}, 0.2f);
      };
      const Floats wanted = attend(key, value);
      // Positions 45 and 60: the second row sees the one, no row the other, which stands in the same lanes.
      for (float odd : {NAN, INFINITY, -INFINITY})
        for (Floats* of : {&key, &value}) {
          const Floats before = *of;
          (*of)[60 * hd + 3] = odd;
          const Floats unseen = attend(key, value);
          (*of)[45 * hd + 3] = odd;
          const Floats seen = attend(key, value);
          *of = before;
          const auto same = [&](const Floats& got, int row) {
            return !std::memcmp(&got[row * hd], &wanted[row * hd], hd * sizeof(float));
          };
          expect(same(unseen, 0) && same(unseen, 1), what + "what no row sees");
          expect(same(seen, 0) && std::isnan(seen[hd + 3]), what + "what one row sees");
        }
      // Numbers of any size are as near to their codes; those that float32 can hardly tell from 0 are 0.
      for (float size : {1e-40f, 1e-30f, 1e30f}) {
        Floats scaled = value, zeros(value.size());
        for (float& x : scaled) x *= size;
        Floats got = attend(key, scaled), want = size < 1e-35f ? attend(key, zeros) : wanted;
        got.resize(2 * hd), want.resize(2 * hd);
        if (size > 1e-35f)
          for (float& x : got) x /= size;
        near(what + "values times " + std::to_string(size), got, {want.begin(), want.end()},
             type == DType::f32 ? 1e-5 : 1e-2);
      }
    }
}

}  // namespace

void test_attention() {
  for (KvCache format : {KvCache::exact, KvCache::int8})
    test_attention_cases(format), test_heads_together(format), test_long_gradient(format);
  test_attention_gradient();
  test_int8_pages();
}

}  // namespace anneal::cpu::test
