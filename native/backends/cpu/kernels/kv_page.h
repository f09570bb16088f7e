// A page of 64 keys (panels N = 64, K = head_dim) or values (panels N = head_dim, K = 64), written token by token.
#pragma once
#include "panels.h"

namespace anneal::cpu {
namespace {

// The larger of the two: a value page has whole panels over head_dim.
template <class T> size_t page_bytes(int head_dim) { return size_t(kPage) * round_to(head_dim, kLanes) * sizeof(T); }

// Rounded in whole vectors, then scattered: a key's pairs are 16 pairs apart, a value's elements one step apart.
template <class T> void kv_write(const float* k, const float* v, int slot, int head_dim, void* k_page, void* v_page) {
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

}  // namespace
}  // namespace anneal::cpu
