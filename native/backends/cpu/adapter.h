// A published version of a low-rank adapter: compute copies that never change.
#pragma once
#include <algorithm>
#include <array>
#include <functional>
#include <vector>

#include "memory.h"
#include "weights.h"

namespace anneal::cpu {

// y += B (s (A x)) of one projection: panels of A [rank][k] and B [n][rank], or of the transposes of both. Ranks are
// padded to whole panels with zeros.
struct LowRank {
  Buffer a, b;
  explicit operator bool() const { return a.data() != nullptr; }
};

struct AdapterPanels {
  int rank = 0;
  float scale = 1;
  std::vector<std::array<LowRank, kProjections>> layers;
  // In some layer.
  bool adapts(int projection) const {
    return std::any_of(layers.begin(), layers.end(), [&](const auto& layer) { return bool(layer[projection]); });
  }
  int padded_rank() const { return int(padded(rank)); }
  int64_t bytes() const {
    int64_t sum = 0;
    for (const auto& projections : layers)
      for (const LowRank& low : projections)
        for (const Buffer* panels : {&low.a, &low.b}) sum += int64_t(panels->size());
    return sum;
  }
};

// What is served.
class AdapterVersion final : public backends::Adapter, public AdapterPanels {
 public:
  int64_t bytes() const override { return AdapterPanels::bytes(); }
};

// A version, and its transposes, which backward reads: of one that is trained, and only as long as it is.
struct TrainedVersion {
  std::shared_ptr<const AdapterVersion> version;
  std::shared_ptr<const AdapterPanels> transposes;
};

// An adapter that this backend made.
inline const AdapterVersion* version_of(const AdapterRef& adapter) {
  return static_cast<const AdapterVersion*>(adapter.get());
}

// Values of A [rank][k] (b false) or B [n][rank] (b true), row-major.
using LoraValues = std::function<Matrix(int layer, int projection, bool b)>;

// A version whose memory is taken before the values are final: filling it takes none.
class NextVersion {
 public:
  // `transposes`: whether it has them.
  NextVersion(const ModelSpec&, const Kernels&, const LoraSpec&, bool transposes, const LoraValues&);
  // Nulls if aborted. Once.
  TrainedVersion fill(const Kernels&, Pool&);

 private:
  // Panels [first, first + count) of src[n][k], or of its transpose.
  struct Packing {
    Matrix src;
    int n, k;
    bool transposed;
    char* panels;
    int first, count;
    void run(const Kernels&) const;
  };
  void pack(const Kernels&, const Matrix& src, int rows, int cols, bool transposed, Buffer& to);

  std::shared_ptr<AdapterVersion> version_ = std::make_shared<AdapterVersion>();
  std::shared_ptr<AdapterPanels> transposes_;  // null: it has none
  std::vector<Packing> pieces_;
};

}  // namespace anneal::cpu
