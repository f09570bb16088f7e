// A page of 64 keys (panels N = 64, K = head_dim) or values (panels N = head_dim, K = 64), written token by token.
#pragma once
#include "panels.h"

namespace anneal {
namespace {

// The larger of the two: a value page has whole panels over head_dim.
template <class T> size_t page_bytes(int head_dim) { return size_t(kPage) * round_to(head_dim, kLanes) * sizeof(T); }

template <class T> void kv_write(const float* k, const float* v, int slot, int head_dim, void* k_page, void* v_page) {
  constexpr int step = kStep<T>;
  T* key = (T*)k_page + slot / kLanes * panel_size<T>(head_dim) + slot % kLanes * step;
  T* value = (T*)v_page + slot / step * (kLanes * step) + slot % step;
  for (int i = 0; i < head_dim; i++) narrow(k[i], key[i / step * (kLanes * step) + i % step]);
  for (int i = 0; i < head_dim; i++) narrow(v[i], value[i / kLanes * panel_size<T>(kPage) + i % kLanes * step]);
}

}  // namespace
}  // namespace anneal
