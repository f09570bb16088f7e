#include "adapter.h"

#include "weights.h"

namespace anneal::cpu {

namespace {

// Elements that are packed in one piece: well below a millisecond.
constexpr int64_t kPackElements = 1 << 17;

}  // namespace

void NextVersion::Packing::run(const Kernels& kernels) const {
  const int at = first * kLanes;
  if (transposed)
    kernels.pack_transposed(src.at(0, at), DType::f32, src.ld, n, std::min(count * kLanes, k - at),
                            panels + first * panel_bytes(kernels, n));
  else
    kernels.pack(src.at(at), DType::f32, src.ld, std::min(count * kLanes, n - at), k,
                 panels + first * panel_bytes(kernels, k));
}

void NextVersion::pack(const Kernels& k, const Matrix& src, int rows, int cols, bool transposed, Buffer& to) {
  const int outputs = transposed ? cols : rows, reduction = transposed ? rows : cols, panels = int(panels_of(outputs));
  to.reserve(panels * panel_bytes(k, reduction));
  const int per = std::max<int>(1, kPackElements / (int64_t(reduction) * kLanes));
  for (int first = 0; first < panels; first += per)
    pieces_.push_back({src, rows, cols, transposed, to.data(), first, std::min(per, panels - first)});
}

NextVersion::NextVersion(const ModelSpec& m, const Kernels& k, const LoraSpec& spec, bool transposes,
                         const LoraValues& values) {
  if (transposes) transposes_ = std::make_shared<AdapterPanels>();
  for (AdapterPanels* panels : {static_cast<AdapterPanels*>(version_.get()), transposes_.get()}) {
    if (!panels) continue;
    panels->rank = spec.rank;
    panels->scale = spec.scale();
    panels->layers.resize(m.layers.size());
  }
  for (int l = 0; l < int(m.layers.size()); l++) {
    for (int p = 0; p < kProjections; p++) {
      if (!spec.adapts(m.layers[l], p)) continue;
      const ProjectionShape shape = projection_shape(m, l, p);
      const Matrix a = values(l, p, false), b = values(l, p, true);
      LowRank& low = version_->layers[l][p];
      pack(k, a, spec.rank, shape.inputs, false, low.a);
      pack(k, b, shape.outputs, spec.rank, false, low.b);
      if (!transposes) continue;
      LowRank& transposed = transposes_->layers[l][p];
      pack(k, a, spec.rank, shape.inputs, true, transposed.a);
      pack(k, b, shape.outputs, spec.rank, true, transposed.b);
    }
  }
}

TrainedVersion NextVersion::fill(const Kernels& k, Pool& pool) {
  if (!Team(pool).each(int64_t(pieces_.size()), [&](int64_t i, int) { pieces_[i].run(k); })) return {};
  return {std::move(version_), std::move(transposes_)};
}

}  // namespace anneal::cpu
