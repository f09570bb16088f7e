// Loading models onto the processor.
#pragma once
#include "../../executor/pool.h"
#include "../backend.h"
#include "kernels/kernels.h"

namespace anneal::cpu {

class CpuDevice final : public backends::Device {
 public:
  // All that it loads runs on this pool, which must outlive it.
  explicit CpuDevice(executor::Pool& pool) : pool_(pool) {}

  void require(const model::ModelSpec&) const override;
  backends::ModelMemory memory(const model::ModelSpec&) const override;
  // The exact family's instruction sets, the fast family's, and "fast": the matrix unit, where there is one.
  std::vector<backends::Arithmetic> arithmetics() const override;
  std::unique_ptr<backends::Backend> load(const model::ModelSpec&, backends::CacheSize, const std::string& arithmetic,
                                          const backends::TensorReader&,
                                          const std::function<bool(double)>& progress) const override;
  int64_t available_memory() const override;

 private:
  executor::Pool& pool_;
};

}  // namespace anneal::cpu
