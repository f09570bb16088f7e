// A published version of a low-rank adapter in a GPU's memory: A and B of the compute type, which never change.
#pragma once
#include <array>

#include "../../executor/pool.h"
#include "gpu_model.h"
#include "staging.h"

namespace anneal::vulkan {

// As shaders/adapters.glsl has it.
struct LowRank {
  uint64_t a = 0, b = 0;  // A [rank][inputs], B [outputs][rank]; 0: not adapted
  int32_t rank = 0;
  float scale = 0;
};

class AdapterVersion final : public backends::Adapter {
 public:
  int64_t bytes() const override { return memory.bytes(); }
  int rank = 0;
  float scale = 1;
  std::vector<std::array<LowRank, kProjections>> layers;
  uint64_t table() const { return memory.address(); }  // of `layers`, on the GPU
  bool adapts(int layer, int p) const { return layers[size_t(layer)][size_t(p)].a != 0; }
  Memory memory;
};

// An adapter that a backend of this device made.
inline const AdapterVersion* version_of(const backends::AdapterRef& adapter) {
  return static_cast<const AdapterVersion*>(adapter.get());
}

// Rows of float32 on the GPU, `ld` floats apart; at 0: none.
struct FloatRows {
  uint64_t at = 0;
  int ld = 0;
};

// Values to be given it. Throws NoDeviceMemory.
std::shared_ptr<AdapterVersion> take_adapter_version(const GpuModel&, const LoraSpec&);
// Rounds the values of masters on the GPU into it, once the commands have run.
void record_adapter_version(Commands&, const GpuModel&, const LoraSpec&,
                            const std::function<FloatRows(int layer, int projection, bool b)>& masters, Staging&,
                            const AdapterVersion&);
// False if aborted.
bool fill_adapter_version(const GpuModel&, executor::Pool&, const LoraSpec&, const backends::AdapterValues&, Staging&,
                          AdapterVersion&);
int64_t adapter_version_bytes(const GpuModel&, const LoraSpec&);
// Both. Null if aborted.
std::shared_ptr<AdapterVersion> make_adapter_version(const GpuModel&, executor::Pool&, const LoraSpec&,
                                                     const backends::AdapterValues&);

}  // namespace anneal::vulkan
