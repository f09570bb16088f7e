#include "fast_attention.h"

namespace anneal::vulkan {
namespace {

constexpr int kMaxHeadDim = 256, kWideHeadDim = 128;
constexpr int kRowsBack = 32;  // keys for the gradients of queries, queries for those of keys, at once

// Of a head, with zeros up to whole matrices.
int padded(const AttentionSpec& a) { return int(round_up(a.head_dim, 32)); }

// Bytes of shared memory, as the shaders have them: what matrices put down, and what their left ones are made of.
int working_bytes(const MatrixShape& s, int sums) {
  return std::max(kMatrixSubgroups, sums) * s.m * s.n * 4 + kMatrixSubgroups * (s.m * s.k * 2 + s.subgroup * 4);
}
int score_matrices(const MatrixShape& s, int keys, int across) {
  return across > 1 ? kMatrixSubgroups / across * (keys / s.n) : 0;
}
int forward_bytes(const MatrixShape& s, const AttentionSpec& a, int across) {
  const int dim = padded(a), unit = keys_of_unit(a);
  const int keys = unit * (dim / 8 + 1), values = dim * (unit / 8 + (dim > kWideHeadDim ? 0 : 1));
  return std::max(keys, values) * 16 + working_bytes(s, score_matrices(s, unit, across));
}
int dq_bytes(const MatrixShape& s, const AttentionSpec& a, int across) {
  const int dim = padded(a), keys = kRowsBack * (dim / 8 + 1), values = dim * (kRowsBack / 8 + 1);
  return (keys + values) * 16 + working_bytes(s, score_matrices(s, kRowsBack, across));
}
int dkv_bytes(const MatrixShape& s, const AttentionSpec& a) {
  return 2 * kRowsBack * (padded(a) / 8 + 1) * 16 + working_bytes(s, kPage * kRowsBack / (s.m * s.n)) + kRowsBack * 16;
}

}  // namespace

int keys_of_unit(const AttentionSpec& a) { return padded(a) > kWideHeadDim ? kPage / 2 : kPage; }

int rows_of_bands(const Gpu& gpu, int across) { return kMatrixSubgroups / across * gpu.facts().matrices.m; }

std::vector<int> shared_bands(const Gpu& gpu, const AttentionSpec& a) {
  std::vector<int> all;
  // Outputs of wide heads are more than one subgroup has registers for.
  for (int across = padded(a) > kWideHeadDim ? 2 : 1; across <= kMatrixSubgroups; across *= 2)
    if (forward_bytes(gpu.facts().matrices, a, across) <= gpu.shared_memory()) all.push_back(across);
  return all;
}

bool attends_on_matrices(const GpuModel& m, const AttentionSpec& a) {
  if (!m.fast || m.spec.kv_cache == KvCache::int8 || a.head_dim % 16 || a.head_dim > kMaxHeadDim) return false;
  const MatrixShape& s = m.gpu->facts().matrices;
  if (s.subgroup % s.m || s.n % (s.subgroup / s.m) || s.n / (s.subgroup / s.m) % 4 || s.k % s.n) return false;
  return !shared_bands(*m.gpu, a).empty();
}

bool goes_back_on_matrices(const GpuModel& m, const AttentionSpec& a) {
  const MatrixShape& s = m.gpu->facts().matrices;
  if (!attends_on_matrices(m, a) || padded(a) > kWideHeadDim || s.m % 8) return false;
  const int room = m.gpu->shared_memory();
  for (const int across : shared_bands(*m.gpu, a))
    if (dq_bytes(s, a, across) > room) return false;
  return dkv_bytes(s, a) <= room;
}

}  // namespace anneal::vulkan
