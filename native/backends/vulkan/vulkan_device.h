// Loading models onto a GPU.
#pragma once
#include "../../executor/pool.h"
#include "../backend.h"
#include "gpu.h"
#include "layout.h"

namespace anneal::vulkan {

// Makes what samples rows of logits that lie in the host's memory, for a model and a number of pages.
using MakeSampler = std::function<std::unique_ptr<backends::Backend>(const ModelSpec&, int pages)>;

using LoadHere = std::function<std::unique_ptr<backends::Backend>(
    const ModelSpec&, backends::CacheSize, const backends::TensorReader&, const std::function<bool(double)>& progress)>;

class VulkanDevice final : public backends::Device {
 public:
  // Device `index` of the loader; throws backends::UnusableDevice. The pool must outlive it and its models.
  // `load_here`: loads a model with quantised weights for the processor.
  VulkanDevice(executor::Pool& pool, int index, MakeSampler sampler, LoadHere load_here = {});

  void require(const ModelSpec&) const override;
  backends::ModelMemory memory(const ModelSpec& m) const override { return memory_of(m); }
  static backends::ModelMemory memory_of(const ModelSpec&);  // of any GPU
  // "fast", where there are cooperative matrices: of models of bfloat16.
  std::vector<backends::Arithmetic> arithmetics() const override;
  std::unique_ptr<backends::Backend> load(const ModelSpec&, backends::CacheSize, const std::string& arithmetic,
                                          const backends::TensorReader&,
                                          const std::function<bool(double)>& progress) const override;
  int64_t available_memory() const override { return gpu_->available(); }
  const std::shared_ptr<Gpu>& gpu() const { return gpu_; }

 private:
  executor::Pool& pool_;
  std::shared_ptr<Gpu> gpu_;
  MakeSampler make_sampler_;
  LoadHere load_here_;
};

inline ElementType type_of(const ModelSpec& m) { return {m.format == TensorFormat::bf16}; }

}  // namespace anneal::vulkan
