#include "adapter.h"

#include "staging.h"

namespace anneal::vulkan {

std::shared_ptr<AdapterVersion> make_adapter_version(const GpuModel& m, executor::Pool& pool, const LoraSpec& spec,
                                                     const backends::AdapterValues& values) {
  auto version = std::make_shared<AdapterVersion>();
  version->rank = spec.rank;
  version->scale = spec.scale();
  version->layers.resize(m.spec.layers.size());
  const int64_t table_bytes = round_up(int64_t(m.layers()) * kProjections * int64_t(sizeof(LowRank)), 256);
  struct Part {
    int layer, projection;
    bool b;
    int rows, cols;
    int64_t at;
  };
  std::vector<Part> parts;
  int64_t bytes = table_bytes;
  for (int l = 0; l < m.layers(); l++)
    for (int p = 0; p < kProjections; p++) {
      if (!spec.adapts(m.spec.layers[size_t(l)], p)) continue;
      const ProjectionShape shape = projection_shape(m.spec, l, p);
      for (const bool b : {false, true}) {
        const int rows = b ? shape.outputs : spec.rank, cols = b ? spec.rank : shape.inputs;
        parts.push_back({l, p, b, rows, cols, bytes});
        bytes += matrix_bytes(m.type, rows, cols);
      }
    }
  m.gpu->plan("an adapter of rank " + std::to_string(spec.rank), bytes);
  version->memory = Memory(m.gpu, bytes);
  for (const Part& part : parts) {
    LowRank& low = version->layers[size_t(part.layer)][size_t(part.projection)];
    (part.b ? low.b : low.a) = version->memory.address() + uint64_t(part.at);
    low.rank = version->rank, low.scale = version->scale;
  }
  std::vector<char> packed(size_t(bytes), 0);
  char* at = packed.data();
  for (const auto& layer : version->layers)
    for (const LowRank& low : layer) {
      std::memcpy(at, &low, sizeof low);
      at += sizeof low;
    }
  if (!pool.each(int64_t(parts.size()), [&](int64_t i, int) {
        const Part& part = parts[size_t(i)];
        pack_rows(m.type, values(part.layer, part.projection, part.b), part.cols, part.rows, part.cols,
                  packed.data() + part.at);
      }))
    return nullptr;
  Staging(m.gpu).write(version->memory, 0, packed.data(), bytes);
  return version;
}

}  // namespace anneal::vulkan
