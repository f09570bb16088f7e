#include "adapter.h"

#include "weights.h"

namespace anneal::cpu {

namespace {

// Elements that are packed in one piece: well below a millisecond.
constexpr int64_t kPackElements = 1 << 17;

// Panels [first, first + count) of src[n][k], or of its transpose.
struct Packing {
  Matrix src;
  int n, k;
  bool transposed;
  char* panels;
  int first, count;

  void run(const Kernels& kernels) const {
    const int at = first * kLanes;
    if (transposed)
      kernels.pack_transposed(src.at(0, at), DType::f32, src.ld, n, std::min(count * kLanes, k - at),
                              panels + first * panel_bytes(kernels, n));
    else
      kernels.pack(src.at(at), DType::f32, src.ld, std::min(count * kLanes, n - at), k,
                   panels + first * panel_bytes(kernels, k));
  }
};

void pack_matrix(const Kernels& k, const Matrix& src, int rows, int cols, bool transposed, Buffer& to,
                 std::vector<Packing>& list) {
  const int outputs = transposed ? cols : rows, reduction = transposed ? rows : cols, panels = int(panels_of(outputs));
  to.reserve(panels * panel_bytes(k, reduction));
  const int per = std::max<int>(1, kPackElements / (int64_t(reduction) * kLanes));
  for (int first = 0; first < panels; first += per)
    list.push_back({src, rows, cols, transposed, to.data(), first, std::min(per, panels - first)});
}

}  // namespace

std::shared_ptr<AdapterVersion> make_adapter_version(const ModelSpec& m, const Kernels& k, Pool& pool,
                                                     const LoraSpec& spec, bool backward, const LoraValues& values) {
  auto version = std::make_shared<AdapterVersion>();
  version->rank = spec.rank;
  version->scale = spec.scale();
  version->layers.resize(m.layers.size());
  std::vector<Packing> list;
  for (int l = 0; l < int(m.layers.size()); l++) {
    for (int p = 0; p < kProjections; p++) {
      if (!spec.adapts(m.layers[l], p)) continue;
      const ProjectionShape shape = projection_shape(m, l, p);
      LowRank& low = version->layers[l][p];
      const Matrix a = values(l, p, false), b = values(l, p, true);
      pack_matrix(k, a, spec.rank, shape.inputs, false, low.a, list);
      pack_matrix(k, b, shape.outputs, spec.rank, false, low.b, list);
      if (!backward) continue;
      pack_matrix(k, a, spec.rank, shape.inputs, true, low.a_t, list);
      pack_matrix(k, b, shape.outputs, spec.rank, true, low.b_t, list);
    }
  }
  if (!Team(pool).each(int64_t(list.size()), [&](int64_t i, int) { list[i].run(k); })) return nullptr;
  return version;
}

}  // namespace anneal::cpu
