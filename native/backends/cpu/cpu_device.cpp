#include "cpu_device.h"

#include <algorithm>

#include "../../executor/machine.h"
#include "cpu_backend.h"
#include "train_pass.h"

namespace anneal::cpu {
namespace {

constexpr const char* kFast = "fast";

Isa isa_named(const std::string& name) {
  if (name.empty()) return best_isa();
  if (name == kFast) return Isa::amx;
  for (Isa isa : kFastIsas)
    if (name == isa_name(isa)) return isa;
  return *std::find_if(std::begin(kIsas), std::end(kIsas), [&](Isa isa) { return name == isa_name(isa); });
}

}  // namespace

void CpuDevice::require(const ModelSpec& m) const {
  model::check(m);
  auto refuse = [](const std::string& field, const char* what) { throw model::UnsupportedModel(field, what); };
  for (size_t i = 0; i < m.layers.size(); i++) {
    const LayerSpec& l = m.layers[i];
    const std::string at = "layers[" + std::to_string(i) + "].", attention = at + "attention.";
    if (l.attends() && l.attention.heads / l.attention.kv_heads > kAttentionRows)
      refuse(attention + "heads", "are more than 64 to a key-value head");
  }
  // Rows have codes of one kind.
  const auto wide = [](const auto& entry) { return model::is_wide(entry.second); };
  const auto count = size_t(std::count_if(m.quantized.begin(), m.quantized.end(), wide));
  if (count > 0 && count < m.quantized.size()) refuse("quantized", "has weights of 16 bits beside others");
}

backends::ModelMemory CpuDevice::memory(const ModelSpec& m) const {
  require(m);
  const Kernels& k = *kernels(Isa::portable, dtype_of(m.format));
  const backends::PageGroups groups = backends::page_groups(m);
  const int64_t page = int64_t(Pages(m, k, groups).page_bytes()) * groups.count();
  return {weight_bytes(m, k), page, activation_bytes_per_token(m, k), groups, int64_t(RecurrentStates(m).bytes())};
}

std::vector<backends::Arithmetic> CpuDevice::arithmetics() const {
  std::vector<backends::Arithmetic> known;
  for (Isa isa : kIsas)
    if (kernels(isa, DType::bf16) && isa != best_isa()) known.push_back({isa_name(isa), true});
  known.push_back({isa_name(best_isa()), true});
  for (Isa isa : kFastIsas)
    if (kernels(isa, DType::bf16)) known.push_back({isa_name(isa), false});
  if (has_matrix_unit()) known.push_back({kFast, false});
  return known;
}

int64_t CpuDevice::available_memory() const { return executor::available_memory(); }

std::unique_ptr<backends::Backend> CpuDevice::load(const ModelSpec& m, backends::CacheSize cache,
                                                   const std::string& arithmetic, const TensorReader& read,
                                                   const std::function<bool(double)>& progress) const {
  require(m);
  const Isa isa = isa_named(arithmetic);
  if (is_fast(isa) && dtype_of(m.format) != DType::bf16)
    throw backends::UnusableDevice(
        "the processor's matrix unit multiplies models in bfloat16, not in float32: open it with that dtype, or with "
        "precision \"exact\"");
  const Kernels& k = *kernels(isa, dtype_of(m.format));
  std::unique_ptr<Weights> weights = load_weights(m, k, pool_, read, progress);
  if (!weights) return nullptr;
  return std::make_unique<CpuBackend>(std::make_unique<Model>(m, k, std::move(weights)), pool_, cache);
}

}  // namespace anneal::cpu
