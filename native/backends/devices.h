// The devices there are. A further one is a folder beside cpu/ and a line here.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "../executor/pool.h"
#include "backend.h"

namespace anneal::backends {

// A device that models run on: "cpu", or "vulkan:0", the GPUs in the order of Vulkan's loader. Work on the processor is
// done by `pool`, which must outlive the device and its models. Throws UnusableDevice for one that is not there, or
// lacks what is needed.
std::unique_ptr<Device> open_device(executor::Pool& pool, const std::string& name = "cpu");
// For a model of so many layers, of which a GPU computes the last `gpu_layers` and the processor the others; -1: all.
std::unique_ptr<Device> open_device(executor::Pool& pool, const std::string& name, int gpu_layers, int layers);

// What a model takes of a device, and the bytes that could be taken of it now, without opening it. Throw as
// open_device() for one that is not there; memory_on() as Device::memory().
ModelMemory memory_on(const std::string& device, executor::Pool& pool, const model::ModelSpec&, int gpu_layers = -1);
int64_t available_memory(const std::string& device);
// Of a model's weights, the bytes that a device must give at once; 0: it need not.
int64_t largest_piece(const std::string& device, const model::ModelSpec&, int gpu_layers = -1);

struct GpuDescription {
  std::string id, name, driver;
  enum class Kind : uint8_t { integrated, discrete, virtual_gpu, software, other } kind;
  int64_t memory, available;  // bytes of its own
  int64_t max_allocation;     // bytes of it that are given at once
  std::string problem;        // why models cannot run on it; empty: they can
  // Of one that can: whether its multiply-adds are fused (else they are done in double precision), whether denormals
  // become zero, and whether its results have the processor's bits.
  bool fused = false, flushes_denormals = false, exact = false;
  bool fast = false;  // has cooperative matrices
};
// Those there are, each opened and tried; or of these only the hardware. Nothing is said where there is no Vulkan.
enum class WantedGpus : uint8_t { all, hardware };
std::vector<GpuDescription> list_gpus(WantedGpus = WantedGpus::all);

// How fast a GPU could be, of which what is computed on it is a share: bytes read from its memory in a second, and
// operations of multiply-adds, two each. Measured, for about a second. Throws as open_device().
struct DeviceRate {
  double bandwidth, operations, matrix_operations;
};
DeviceRate measure_gpu(const std::string& device);

// What a GPU's driver made of shaders, so that a later process need not wait for it: of one that is in use, else empty;
// and given back before one is opened, whose it may be or not.
std::vector<uint8_t> pipelines_of(const std::string& device);
void restore_pipelines(const std::string& device, std::vector<uint8_t>);

// A backend without weights, for a model whose logits are computed elsewhere and come with every run: it samples. Of
// the spec it uses what steps are checked by: vocab and max_positions.
std::unique_ptr<Backend> open_sampler(executor::Pool& pool, const model::ModelSpec&, int pages);

}  // namespace anneal::backends
