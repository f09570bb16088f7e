#include "adapter.h"

#include "staging.h"

namespace anneal::vulkan {

namespace {

// A or B of a projection, in a version's memory.
struct Part {
  int layer, projection;
  bool b;
  int rows, cols;
  int64_t at;
};
// The table of what is adapted lies before them.
struct Places {
  std::vector<Part> parts;
  int64_t bytes;

  Places(const GpuModel& m, const LoraSpec& spec)
      : bytes(round_up(int64_t(m.layers()) * kProjections * int64_t(sizeof(LowRank)), 256)) {
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
  }
};

}  // namespace

int64_t adapter_version_bytes(const GpuModel& m, const LoraSpec& spec) { return Places(m, spec).bytes; }

std::shared_ptr<AdapterVersion> take_adapter_version(const GpuModel& m, const LoraSpec& spec) {
  auto version = std::make_shared<AdapterVersion>();
  version->rank = spec.rank;
  version->scale = spec.scale();
  version->layers.resize(m.spec.layers.size());
  const Places places(m, spec);
  MemoryPlan plan(m.gpu, "an adapter of rank " + std::to_string(spec.rank));
  plan.add(version->memory, places.bytes, Memory::Place::device, Memory::Parts::addressed);
  plan.take();
  for (const Part& part : places.parts) {
    LowRank& low = version->layers[size_t(part.layer)][size_t(part.projection)];
    (part.b ? low.b : low.a) = version->memory.address() + uint64_t(part.at);
    low.rank = version->rank, low.scale = version->scale;
  }
  return version;
}

namespace {

// What stands before the parts in a version's memory.
std::vector<LowRank> table_of(const AdapterVersion& version) {
  std::vector<LowRank> table;
  for (const auto& layer : version.layers) table.insert(table.end(), layer.begin(), layer.end());
  return table;
}

}  // namespace

void record_adapter_version(Commands& commands, const GpuModel& m, const LoraSpec& spec,
                            const std::function<FloatRows(int layer, int projection, bool b)>& masters,
                            Staging& staging, const AdapterVersion& version) {
  const std::vector<LowRank> table = table_of(version);
  staging.write(version.memory, 0, table.data(), int64_t(table.size() * sizeof(LowRank)));
  for (const Part& part : Places(m, spec).parts) {
    const FloatRows from = masters(part.layer, part.projection, part.b);
    const struct {
      uint64_t from, to;
      int32_t n, k, ld, padding;
    } parameters{from.at, version.memory.address() + uint64_t(part.at), part.rows, part.cols, from.ld, 0};
    const int64_t granules = matrix_bytes(m.type, part.rows, part.cols) / 16;
    commands.dispatch(m.pipeline(Shader::kPackRows), parameters, (granules + 63) / 64);
  }
}

bool fill_adapter_version(const GpuModel& m, executor::Pool& pool, const LoraSpec& spec,
                          const backends::AdapterValues& values, Staging& staging, AdapterVersion& version) {
  const Places places(m, spec);
  std::vector<char> packed(size_t(places.bytes), 0);
  const std::vector<LowRank> table = table_of(version);
  std::memcpy(packed.data(), table.data(), table.size() * sizeof(LowRank));
  if (!pool.each(int64_t(places.parts.size()), [&](int64_t i, int) {
        const Part& part = places.parts[size_t(i)];
        pack_rows(m.type, values(part.layer, part.projection, part.b), part.cols, part.rows, part.cols,
                  packed.data() + part.at);
      }))
    return false;
  staging.write(version.memory, 0, packed.data(), places.bytes);
  return true;
}

std::shared_ptr<AdapterVersion> make_adapter_version(const GpuModel& m, executor::Pool& pool, const LoraSpec& spec,
                                                     const backends::AdapterValues& values) {
  m.gpu->plan("an adapter of rank " + std::to_string(spec.rank), adapter_version_bytes(m, spec) + Staging::kBytes);
  auto version = take_adapter_version(m, spec);
  Staging staging(m.gpu);
  return fill_adapter_version(m, pool, spec, values, staging, *version) ? std::move(version) : nullptr;
}

}  // namespace anneal::vulkan
