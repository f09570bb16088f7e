// A page of 64 keys (panels N = 64, K = head_dim) or values (panels N = head_dim, K = 64), written token by token: as
// elements of T, or as codes of 8 bits.
//
// Codes are exact in T, and so are products with them as far as sums are: a score is the chain over the codes of a key,
// then times the key's scale; a value's probability is multiplied with the value's scale before it is rounded to T, and
// meets the codes. What a page of codes stands for is code * scale.
#pragma once
#include "codes.h"
#include "panels.h"

namespace anneal::cpu {
namespace {

// Elements of a page: a value page has whole panels over head_dim.
ANNEAL_INLINE int64_t page_elements(int head_dim) { return int64_t(kPage) * round_to(head_dim, kLanes); }

// The keys and values of a block as products take them: panels of T, and what codes are multiplied with [64], or null.
template <class T> struct KvBlock {
  const T *keys, *values;
  const float *key_scales, *value_scales;
};

template <class T> struct ExactPages {
  static constexpr bool kCoded = false;

  static size_t bytes(int head_dim) { return size_t(page_elements(head_dim)) * sizeof(T); }

  // Rounded in whole vectors, then scattered: a key's pairs are 16 pairs apart, a value's elements one step apart.
  static void write(const float* k, const float* v, int slot, int head_dim, void* k_page, void* v_page) {
    constexpr int step = kStep<T>;
    constexpr int chunk = 64;
    T* key = (T*)k_page + slot / kLanes * panel_size<T>(head_dim) + slot % kLanes * step;
    T* value = (T*)v_page + slot / step * (kLanes * step) + slot % step;
    alignas(64) T keys[chunk], values[chunk];
    for (int d = 0; d < head_dim; d += chunk) {
      const int count = head_dim - d < chunk ? head_dim - d : chunk;
      each16(count, [&](int64_t i, auto lanes) {
        store(keys + i, load(k + d + i, lanes));
        store(values + i, load(v + d + i, lanes));
      });
      for (int i = 0; i < count; i += step)
        for (int j = 0; j < step && i + j < count; j++) key[(d + i) * kLanes + j] = keys[i + j];
      for (int i = 0; i < count; i += kLanes) {
        T* panel = value + (d + i) / kLanes * panel_size<T>(kPage);
        for (int j = 0; j < kLanes && i + j < count; j++) panel[j * step] = values[i + j];
      }
    }
  }
};

// Panels [k][16] of codes, then the scale of each slot [64] float32.
template <class T> struct CodePages {
  static constexpr bool kCoded = true;

  static size_t bytes(int head_dim) { return size_t(page_elements(head_dim)) + kPage * sizeof(float); }
  static float* scales(const void* page, int head_dim) { return (float*)((char*)page + page_elements(head_dim)); }

  static void write(const float* k, const float* v, int slot, int head_dim, void* k_page, void* v_page) {
    int8_t* key = (int8_t*)k_page + slot / kLanes * panel_size<T>(head_dim) + slot % kLanes;
    int8_t* value = (int8_t*)v_page + slot * kLanes;
    alignas(16) int8_t codes[kLanes];
    scales(k_page, head_dim)[slot] = each_code(k, head_dim, [&](int64_t d, I32x16 x, int count) {
      store_bytes(codes, x);
      for (int i = 0; i < count; i++) key[(d + i) * kLanes] = codes[i];
    });
    scales(v_page, head_dim)[slot] = each_code(
        v, head_dim, [&](int64_t d, I32x16 x, int) { store_bytes(value + d / kLanes * panel_size<T>(kPage), x); });
  }

  // Panels of T, of `count` codes; fetches what lies at `next` in the same places.
  static void unpack(const void* page, int64_t count, T* to, const void* next) {
    const int8_t* from = (const int8_t*)page;
    for (int64_t i = 0; i < count; i += kUnpacked) {
      if (i % 64 == 0) prefetch((const char*)next + i);
#pragma GCC unroll 4
      for (int j = 0; j < kUnpacked; j += kLanes * kStep<T>) store_codes(from + i + j, to + i + j);
    }
  }

 private:
  static constexpr int kUnpacked = 2 * kLanes;  // codes at a time, of which any panel has whole numbers

  // body(index, codes, how many) for every 16 numbers; returns their scale.
  template <class Body> static float each_code(const float* x, int n, Body&& body) {
    CodeRange range;
    each16(n, [&](int64_t i, auto lanes) { range.add(load(x + i, lanes)); });
    const CodeScale scale(range);
    each16(n, [&](int64_t i, auto lanes) { body(i, as_int(scale.shifted(load(x + i, lanes))), lanes.n); });
    return scale.scale;
  }
  static ANNEAL_INLINE F32x16 widened(const int8_t* codes) { return to_float(load_signed_bytes(codes)); }
  static ANNEAL_INLINE void store_codes(const int8_t* from, float* to) { store(to, widened(from)); }
  // As bfloat16 a code is the upper half of its float32, whose lower half is 0.
  static ANNEAL_INLINE void store_codes(const int8_t* from, bf16* to) {
    const I32x16 even = as_int(widened(from)), odd = as_int(widened(from + kLanes));
    store_int(to, shift_right<16>(even) | odd);
  }
};

}  // namespace
}  // namespace anneal::cpu
