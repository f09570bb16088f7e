#include "adapter.h"

#include <cmath>

#include "weights.h"

namespace anneal {

float lora_scale(const LoraSpec& s) { return s.rslora ? s.alpha / std::sqrt(float(s.rank)) : s.alpha / float(s.rank); }

std::shared_ptr<AdapterVersion> make_adapter_version(const DecoderConfig& c, const Kernels& k, const LoraSpec& spec, bool backward,
                                                     const LoraValues& values) {
  auto version = std::make_shared<AdapterVersion>();
  version->rank = spec.rank;
  version->scale = lora_scale(spec);
  version->layers.resize(c.layers);
  for (int l = 0; l < c.layers; l++) {
    for (int p = 0; p < kProjections; p++) {
      if (!spec.targets[p]) continue;
      const ProjectionShape shape = projection_shape(c, p);
      LowRank& low = version->layers[l][p];
      const Matrix a = values(l, p, false);
      low.a.reserve(panels_of(spec.rank) * panel_bytes(k, shape.k));
      k.pack(a.data, DType::f32, a.ld, spec.rank, shape.k, low.a.data());
      if (backward) {
        low.a_t.reserve(panels_of(shape.k) * panel_bytes(k, spec.rank));
        k.pack_transposed(a.data, DType::f32, a.ld, spec.rank, shape.k, low.a_t.data());
      }
      const Matrix b = values(l, p, true);
      low.b.reserve(panels_of(shape.n) * panel_bytes(k, spec.rank));
      k.pack(b.data, DType::f32, b.ld, shape.n, spec.rank, low.b.data());
      if (backward) {
        low.b_t.reserve(panels_of(spec.rank) * panel_bytes(k, shape.n));
        k.pack_transposed(b.data, DType::f32, b.ld, shape.n, spec.rank, low.b_t.data());
      }
    }
  }
  return version;
}

}  // namespace anneal
