// An adapter under training: float32 masters, gradients and moments in a GPU's memory, and the optimizer over them.
#pragma once
#include "../parts.h"
#include "adapter.h"
#include "staging.h"

namespace anneal::vulkan {

// Where a backward pass adds gradients of A [rank][ld] and B [outputs][ld]; none where these are not trained.
using Gradient = FloatRows;

class AdapterParameters final : public backends::PartTrainable {
 public:
  AdapterParameters(const GpuModel&, executor::Pool&, const LoraSpec&, uint64_t seed,
                    const backends::AdapterValues* values);

  void zero_grad() override { has_gradient_ = false; }
  double add_squares(double sum) override;
  void step(const backends::OptimizerSettings&, double norm) override;
  backends::AdapterRef version() const override { return version_; }
  int64_t steps() const override { return steps_; }
  void set_steps(int64_t steps) override { steps_ = steps; }
  const std::vector<TensorShape>& tensors() const override { return tensors_; }
  void read(int tensor, Part, std::span<float> to) const override;
  void write(int tensor, Part, std::span<const float> from) override;
  void refresh() override;

  // What training passes of it leave to the next.
  const std::shared_ptr<SpareMemory>& spare() const { return spare_; }

  // The destinations of one backward pass, zeros once what was recorded has run. Nothing of it counts before commit().
  void begin(Commands&);
  Gradient gradient(int layer, int projection, bool b) const;
  void commit();

 private:
  // In floats, as the processor's parameters lie: sums over them have its bits.
  struct Place {
    int64_t offset, rows, cols, ld;
  };
  const Memory& part(Part) const;
  FloatRows rows_of(const Memory&, int layer, int projection, bool b) const;
  // Runs what was recorded, and then makes the version of the values there are, in one that was taken for it.
  void publish(Commands&, std::shared_ptr<AdapterVersion>);

  const GpuModel& model_;
  executor::Pool& pool_;
  LoraSpec spec_;
  AdapterPlaces places_;
  std::vector<TensorShape> tensors_;
  std::vector<Place> parameters_;
  int64_t size_ = 0;
  Memory value_, gradient_, pending_, moment1_, moment2_, sums_;
  mutable Staging staging_;
  bool has_gradient_ = false;  // else it is zero, whatever its memory holds
  int64_t steps_ = 0;
  backends::AdapterRef version_;
  std::shared_ptr<SpareMemory> spare_ = std::make_shared<SpareMemory>();
};

}  // namespace anneal::vulkan
