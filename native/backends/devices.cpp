#include "devices.h"

#include <charconv>
#include <cstring>

#include "../executor/machine.h"
#include "cpu/cpu_device.h"
#include "cpu/given_logits.h"
#include "split/split_device.h"
#include "vulkan/open_gpu.h"
#include "vulkan/rate.h"
#include "vulkan/vulkan_device.h"
#include "vulkan/weights.h"

namespace anneal::backends {

namespace {

// Of "vulkan:N"; -1: another name.
int gpu_index(const std::string& name) {
  constexpr const char* prefix = "vulkan:";
  if (!name.starts_with(prefix)) return -1;
  const char *const digits = name.c_str() + std::strlen(prefix), *const end = name.c_str() + name.size();
  int index = -1;
  const auto [stop, error] = std::from_chars(digits, end, index);
  return error == std::errc() && stop == end ? index : -1;
}

int64_t available_of_gpu(const std::string& name) {
  const size_t index = size_t(gpu_index(name));
  const auto gpus = vulkan::Gpu::list();
  if (index >= gpus.size())
    throw UnusableDevice(name + " is not there: Vulkan has " + std::to_string(gpus.size()) + " devices");
  return gpus[index].available;
}

// A model that a GPU has as well.
std::unique_ptr<Backend> load_beside(const cpu::CpuDevice& device, const model::ModelSpec& spec, CacheSize cache,
                                     const TensorReader& read, const std::function<bool(double)>& progress) {
  const ModelMemory needs = device.memory(spec);
  const int64_t needed = needs.weights + cache.pages * needs.page + cache.recurrent_states * needs.recurrent_state;
  if (const int64_t free = device.available_memory(); needed > free)
    throw NoDeviceMemory("the model's weights, which the processor has as well while they are loaded,", needed, free);
  return device.load(spec, cache, "", read, progress);
}

// What is asked of a device by its name, without opening it or to open it: an entry for every folder.
struct DeviceKind {
  bool (*has)(const std::string& name);
  std::unique_ptr<Device> (*open)(executor::Pool&, const std::string& name);
  ModelMemory (*memory)(executor::Pool&, const model::ModelSpec&);
  int64_t (*available)(const std::string& name);
  int64_t (*largest_piece)(const model::ModelSpec&);
};

constexpr DeviceKind kDevices[] = {
    {
        .has = [](const std::string& name) { return name == "cpu"; },
        .open = [](executor::Pool& pool, const std::string&) -> std::unique_ptr<Device> {
          return std::make_unique<cpu::CpuDevice>(pool);
        },
        .memory = [](executor::Pool& pool, const model::ModelSpec& spec) { return cpu::CpuDevice(pool).memory(spec); },
        .available = [](const std::string&) { return executor::available_memory(); },
        .largest_piece = [](const model::ModelSpec&) -> int64_t { return 0; },
    },
    {
        .has = [](const std::string& name) { return gpu_index(name) >= 0; },
        .open = [](executor::Pool& pool, const std::string& name) -> std::unique_ptr<Device> {
          return std::make_unique<vulkan::VulkanDevice>(
              pool, gpu_index(name),
              [&pool](const model::ModelSpec& spec, int pages) { return open_sampler(pool, spec, pages); },
              [&pool](const model::ModelSpec& spec, CacheSize cache, const TensorReader& read, const auto& progress) {
                return load_beside(cpu::CpuDevice(pool), spec, cache, read, progress);
              });
        },
        .memory = [](executor::Pool&, const model::ModelSpec& spec) { return vulkan::VulkanDevice::memory_of(spec); },
        .available = available_of_gpu,
        .largest_piece =
            [](const model::ModelSpec& spec) { return vulkan::largest_weight_bytes(spec, vulkan::type_of(spec)); },
    },
};

const DeviceKind& kind_of(const std::string& name) {
  for (const DeviceKind& kind : kDevices)
    if (kind.has(name)) return kind;
  throw UnusableDevice("\"" + name + "\" is no device: there are \"cpu\" and \"vulkan:0\" and on");
}

int known_gpu(const std::string& name) {
  const int index = gpu_index(name);
  if (index < 0) throw UnusableDevice("\"" + name + "\" is no GPU: they are \"vulkan:0\" and on");
  return index;
}

const std::string kProcessor = "cpu";

bool splits(const std::string& name, int gpu_layers, int layers) {
  return name != kProcessor && gpu_layers > 0 && gpu_layers < layers;
}

// What of a model a device has.
model::ModelSpec part_on(const std::string& name, const model::ModelSpec& spec, int gpu_layers) {
  return splits(name, gpu_layers, int(spec.layers.size())) ? split::last_layers(spec, gpu_layers) : spec;
}

}  // namespace

std::unique_ptr<Device> open_device(executor::Pool& pool, const std::string& name) {
  return kind_of(name).open(pool, name);
}

std::unique_ptr<Device> open_device(executor::Pool& pool, const std::string& name, int gpu_layers, int layers) {
  if (!splits(name, gpu_layers, layers)) return open_device(pool, name);
  return std::make_unique<split::SplitDevice>(open_device(pool), open_device(pool, name), gpu_layers);
}

ModelMemory memory_on(const std::string& name, executor::Pool& pool, const model::ModelSpec& spec, int gpu_layers) {
  if (const int layers = int(spec.layers.size()); splits(name, gpu_layers, layers))
    return split::memory_of(kind_of(kProcessor).memory(pool, split::first_layers(spec, layers - gpu_layers)),
                            kind_of(name).memory(pool, split::last_layers(spec, gpu_layers)));
  return kind_of(name).memory(pool, spec);
}

int64_t largest_piece(const std::string& name, const model::ModelSpec& spec, int gpu_layers) {
  return kind_of(name).largest_piece(part_on(name, spec, gpu_layers));
}

int64_t available_memory(const std::string& name) { return kind_of(name).available(name); }

std::vector<GpuDescription> list_gpus(WantedGpus wanted) {
  using Kind = GpuDescription::Kind;
  std::vector<GpuDescription> list;
  const std::vector<vulkan::GpuFacts> all = vulkan::Gpu::list();
  for (size_t index = 0; index < all.size(); index++) {
    const vulkan::GpuFacts& facts = all[index];
    const Kind kind = facts.type == vulkan::vk::kIntegrated ? Kind::integrated
                      : facts.type == vulkan::vk::kDiscrete ? Kind::discrete
                      : facts.type == vulkan::vk::kVirtual  ? Kind::virtual_gpu
                      : facts.type == vulkan::vk::kCpu      ? Kind::software
                                                            : Kind::other;
    if (wanted == WantedGpus::hardware && kind != Kind::integrated && kind != Kind::discrete) continue;
    GpuDescription gpu{"vulkan:" + std::to_string(index),
                       facts.name,
                       facts.driver,
                       kind,
                       facts.memory,
                       facts.available,
                       facts.max_allocation,
                       ""};
    try {
      const auto& arithmetic = vulkan::open_gpu(int(index))->arithmetic();
      gpu.fused = arithmetic.fused, gpu.exact = arithmetic.exact, gpu.flushes_denormals = facts.flushes_denormals;
      gpu.fast = bool(facts.matrices);
    } catch (const std::exception& error) {
      gpu.problem = error.what();
    }
    list.push_back(std::move(gpu));
  }
  return list;
}

DeviceRate measure_gpu(const std::string& device) {
  const vulkan::GpuRate rate = vulkan::measure_rate(vulkan::open_gpu(known_gpu(device)));
  return {rate.bandwidth, rate.operations, rate.matrix_operations};
}

std::vector<uint8_t> pipelines_of(const std::string& device) { return vulkan::pipelines_of(known_gpu(device)); }

void restore_pipelines(const std::string& device, std::vector<uint8_t> data) {
  vulkan::restore_pipelines(known_gpu(device), std::move(data));
}

std::unique_ptr<Backend> open_sampler(executor::Pool& pool, const model::ModelSpec& spec, int pages) {
  return std::make_unique<cpu::GivenLogits>(spec, pool, pages);
}

}  // namespace anneal::backends
