#include "gpu.h"

#include <algorithm>
#include <cstring>

#include "shader_words.h"

namespace anneal::vulkan {
namespace {

constexpr const char* kMemoryBudget = "VK_EXT_memory_budget";
constexpr const char* kPortabilitySubset = "VK_KHR_portability_subset";
constexpr const char *kCooperativeMatrix = "VK_KHR_cooperative_matrix",
                     *kSubgroupSizeControl = "VK_EXT_subgroup_size_control",
                     *kIntegerDotProduct = "VK_KHR_shader_integer_dot_product";
constexpr uint32_t kPushConstantBytes = 128;                      // what every device has
constexpr uint32_t kSharedMemory = 32 << 10, kInvocations = 256;  // of a workgroup, which not every device has

template <class T> T limit(const vk::PhysicalDeviceProperties& properties, size_t at) {
  T value;
  std::memcpy(&value, properties.limits + at, sizeof value);
  return value;
}

struct Description {
  GpuFacts facts;
  vk::PhysicalDeviceFloatControlsProperties controls;
  int max_groups = 0, shared_memory = 0, max_invocations = 0;
  bool has_budget = false, has_subset = false, float64 = false;
  uint32_t family = ~0u;
  vk::PhysicalDeviceMemoryProperties memory;
};

// Bytes of a heap that could be taken now, as far as is known without what this process took of it.
int64_t available_of(const vk::InstanceFunctions& call, vk::PhysicalDevice device, bool has_budget, uint32_t heap) {
  vk::PhysicalDeviceMemoryBudgetProperties budget;
  vk::PhysicalDeviceMemoryProperties2 memory;
  if (has_budget) memory.next = &budget;
  call.get_memory_properties(device, &memory);
  if (!has_budget) return int64_t(memory.properties.heaps[heap].size);
  return std::max<int64_t>(0, int64_t(budget.budget[heap]) - int64_t(budget.usage[heap]));
}

// Of what has both extensions. Shaders have tiles of 16 by 32 at least, 32 k at a time, by 8 subgroups.
MatrixShape matrices_of(const vk::InstanceFunctions& call, vk::PhysicalDevice device, int subgroup,
                        const vk::PhysicalDeviceProperties& properties) {
  vk::PhysicalDeviceVulkan12Features recent;
  vk::PhysicalDeviceSubgroupSizeControlFeatures sizes;
  vk::PhysicalDeviceCooperativeMatrixFeatures matrices;
  vk::PhysicalDeviceFeatures2 features;
  features.next = &recent, recent.next = &sizes, sizes.next = &matrices;
  call.get_features(device, &features);
  if (!recent.shader_float16 || !recent.vulkan_memory_model_device_scope || !sizes.subgroup_size_control ||
      !sizes.compute_full_subgroups || !matrices.cooperative_matrix || !call.get_cooperative_matrices ||
      limit<uint32_t>(properties, vk::kMaxInvocationsAt) < uint32_t(kMatrixSubgroups * subgroup))
    return {};
  uint32_t count = 0;
  if (call.get_cooperative_matrices(device, &count, nullptr) != vk::kSuccess) return {};
  std::vector<vk::CooperativeMatrixProperties> all(count);
  if (call.get_cooperative_matrices(device, &count, all.data()) < 0) return {};
  MatrixShape best;
  for (const auto& p : all) {
    if (p.a != vk::kComponentFloat16 || p.b != p.a || p.c != vk::kComponentFloat32 || p.result != p.c || p.saturating ||
        p.scope != vk::kScopeSubgroup || !p.m || !p.n || !p.k)
      continue;
    if (16 % p.m || p.n % 8 || 32 % p.n || p.k % 8 || 32 % p.k) continue;
    if (p.m * p.n * p.k > uint32_t(best.m * best.n * best.k)) best = {int(p.m), int(p.n), int(p.k), subgroup};
  }
  return best;
}

// Of what has the extension.
ByteProducts byte_products_of(const vk::InstanceFunctions& call, vk::PhysicalDevice device) {
  vk::PhysicalDeviceShaderIntegerDotProductFeatures dots;
  vk::PhysicalDeviceFeatures2 features;
  features.next = &dots;
  call.get_features(device, &features);
  if (!dots.shader_integer_dot_product) return ByteProducts::none;
  vk::PhysicalDeviceShaderIntegerDotProductProperties speeds;
  vk::PhysicalDeviceProperties2 properties;
  properties.next = &speeds;
  call.get_properties(device, &properties);
  return speeds.packed_signed_bytes_accelerated ? ByteProducts::fast : ByteProducts::slow;
}

Description describe(const vk::InstanceFunctions& call, vk::PhysicalDevice device) {
  Description d;
  vk::PhysicalDeviceDriverProperties driver;
  vk::PhysicalDeviceMaintenance3Properties sizes;
  vk::PhysicalDeviceSubgroupProperties subgroups;
  vk::PhysicalDeviceProperties2 properties;
  properties.next = &driver, driver.next = &sizes, sizes.next = &d.controls, d.controls.next = &subgroups;
  call.get_properties(device, &properties);
  d.controls.next = nullptr;
  d.facts.name = properties.properties.name;
  d.facts.driver = std::string(driver.driver_name) + " " + driver.driver_info;
  d.facts.type = properties.properties.device_type;
  d.facts.flushes_denormals = d.controls.denorm_flush32;
  d.facts.max_allocation = int64_t(std::min<uint64_t>(sizes.max_memory_allocation_size, INT64_MAX));
  d.max_groups = int(std::min<uint32_t>(65535, limit<uint32_t>(properties.properties, vk::kMaxGroupsAt + 4)));
  d.shared_memory = int(limit<uint32_t>(properties.properties, vk::kMaxSharedMemoryAt));

  d.max_invocations = int(std::min(limit<uint32_t>(properties.properties, vk::kMaxInvocationsAt),
                                   limit<uint32_t>(properties.properties, vk::kMaxInvocationsAt + 4)));

  vk::PhysicalDeviceVulkan12Features recent;
  vk::PhysicalDeviceVulkan11Features storage;
  vk::PhysicalDeviceFeatures2 features;
  features.next = &recent, recent.next = &storage;
  call.get_features(device, &features);
  d.float64 = features.features.shader_float64;
  const auto require = [&](bool has, const char* what) {
    if (!has) d.facts.missing += (d.facts.missing.empty() ? "" : " and ") + std::string(what);
  };
  require(recent.buffer_device_address, "buffer device addresses");
  require(storage.storage_buffer_16_bit_access, "storage of 16-bit numbers");
  require(limit<uint32_t>(properties.properties, vk::kMaxSharedMemoryAt) >= kSharedMemory, "32 KiB of shared memory");
  require(limit<uint32_t>(properties.properties, vk::kMaxInvocationsAt) >= kInvocations &&
              limit<uint32_t>(properties.properties, vk::kMaxInvocationsAt + 4) >= kInvocations,
          "workgroups of 256 invocations");

  uint32_t count = 0;
  call.enumerate_device_extensions(device, nullptr, &count, nullptr);
  std::vector<vk::ExtensionProperties> extensions(count);
  call.enumerate_device_extensions(device, nullptr, &count, extensions.data());
  bool has_matrices = false, has_sizes = false, has_dots = false;
  for (const auto& extension : extensions) {
    d.has_budget |= std::strcmp(extension.name, kMemoryBudget) == 0;
    d.has_subset |= std::strcmp(extension.name, kPortabilitySubset) == 0;
    has_matrices |= std::strcmp(extension.name, kCooperativeMatrix) == 0;
    has_sizes |= std::strcmp(extension.name, kSubgroupSizeControl) == 0;
    has_dots |= std::strcmp(extension.name, kIntegerDotProduct) == 0;
  }
  if (has_matrices && has_sizes)
    d.facts.matrices = matrices_of(call, device, int(subgroups.size), properties.properties);

  if (has_dots) d.facts.byte_products = byte_products_of(call, device);

  call.get_queue_families(device, &count, nullptr);
  std::vector<vk::QueueFamilyProperties> families(count);
  call.get_queue_families(device, &count, families.data());
  for (uint32_t i = 0; i < count && d.family == ~0u; i++)
    if (families[i].flags & vk::kQueueCompute) d.family = i;
  require(d.family != ~0u, "a queue for compute");

  vk::PhysicalDeviceMemoryProperties2 memory;
  call.get_memory_properties(device, &memory);
  d.memory = memory.properties;
  for (uint32_t h = 0; h < d.memory.heap_count; h++)
    if (d.memory.heaps[h].flags & vk::kHeapDeviceLocal && int64_t(d.memory.heaps[h].size) > d.facts.memory) {
      d.facts.memory = int64_t(d.memory.heaps[h].size);
      d.facts.available = available_of(call, device, d.has_budget, h);
    }
  return d;
}

// What stands before a driver's cache, by Vulkan's specification.
struct CacheHeader {
  uint32_t bytes, version, vendor, device;
  uint8_t uuid[vk::kUuidSize];
};

}  // namespace

bool are_of(std::span<const uint8_t> pipelines, const vk::PhysicalDeviceProperties& device) {
  CacheHeader header;
  if (pipelines.size() < sizeof header) return false;
  std::memcpy(&header, pipelines.data(), sizeof header);
  return header.bytes == sizeof header && header.version == 1 && header.vendor == device.vendor &&
         header.device == device.device && std::memcmp(header.uuid, device.pipeline_cache_uuid, vk::kUuidSize) == 0;
}

std::vector<GpuFacts> Gpu::list() {
  std::vector<GpuFacts> all;
  if (const auto instance = Instance::open())
    for (vk::PhysicalDevice device : instance->devices()) all.push_back(describe(instance->call, device).facts);
  return all;
}

// Where it throws, what has been made of it is let go of.
Gpu::Gpu(int index, std::span<const uint8_t> pipelines) : Gpu() {
  const std::string name = "vulkan:" + std::to_string(index);
  instance_ = Instance::open();
  if (!instance_) throw backends::UnusableDevice(name + " is not there: no driver of Vulkan 1.2 was found");
  const auto devices = instance_->devices();
  if (index < 0 || index >= int(devices.size()))
    throw backends::UnusableDevice(name + " is not there: Vulkan has " + std::to_string(devices.size()) + " devices");
  physical_ = devices[size_t(index)];
  instance_call = instance_->call;
  const Description d = describe(instance_->call, physical_);
  facts_ = d.facts;
  if (!facts_.missing.empty()) throw backends::UnusableDevice(name + " (" + facts_.name + ") lacks " + facts_.missing);
  has_doubles_ = d.float64;
  preserves_specials_ = d.controls.signed_zero_inf_nan_preserve32, rounds_to_even_ = d.controls.rounding_rte32;
  max_groups_ = d.max_groups, shared_memory_ = d.shared_memory, max_invocations_ = d.max_invocations;
  has_budget_ = d.has_budget, family = d.family;

  vk::PhysicalDeviceVulkan12Features recent;
  vk::PhysicalDeviceVulkan11Features storage;
  vk::PhysicalDeviceFeatures2 features;
  recent.buffer_device_address = 1, storage.storage_buffer_16_bit_access = 1;
  features.features.shader_float64 = d.float64;
  features.next = &recent, recent.next = &storage;
  const float priority = 1;
  const vk::DeviceQueueCreateInfo queues{.family = family, .count = 1, .priorities = &priority};
  std::vector<const char*> extensions;
  vk::PhysicalDeviceSubgroupSizeControlFeatures sizes{.subgroup_size_control = 1, .compute_full_subgroups = 1};
  vk::PhysicalDeviceCooperativeMatrixFeatures matrices{.cooperative_matrix = 1};
  if (facts_.matrices) {
    recent.shader_float16 = 1, recent.vulkan_memory_model = 1, recent.vulkan_memory_model_device_scope = 1;
    storage.next = &sizes, sizes.next = &matrices;
    extensions.insert(extensions.end(), {kCooperativeMatrix, kSubgroupSizeControl});
  }
  vk::PhysicalDeviceShaderIntegerDotProductFeatures dots{.shader_integer_dot_product = 1};
  if (facts_.byte_products != ByteProducts::none) {
    dots.next = features.next, features.next = &dots;
    extensions.push_back(kIntegerDotProduct);
  }
  if (has_budget_) extensions.push_back(kMemoryBudget);
  if (d.has_subset) extensions.push_back(kPortabilitySubset);  // required where it is there
  const vk::DeviceCreateInfo info{.next = &features,
                                  .queue_count = 1,
                                  .queues = &queues,
                                  .extension_count = uint32_t(extensions.size()),
                                  .extensions = extensions.data()};
  if (instance_->call.create_device(physical_, &info, nullptr, &handle) != vk::kSuccess)
    throw backends::UnusableDevice(name + " (" + facts_.name + ") cannot be opened");
#define ANNEAL_VK_LOAD(member, name, result, parameters) \
  call.member = reinterpret_cast<decltype(call.member)>( \
      reinterpret_cast<void*>(instance_->call.get_device_proc_addr(handle, name)));
  ANNEAL_VK_DEVICE(ANNEAL_VK_LOAD)
#undef ANNEAL_VK_LOAD
  call.get_queue(handle, family, 0, &queue);

  const uint32_t usable = types_of_buffers();
  const auto find = [&](std::initializer_list<vk::Flags> wishes) {
    std::vector<uint32_t> found;
    for (vk::Flags wish : wishes)
      for (uint32_t t = 0; t < d.memory.type_count; t++)
        if (usable >> t & 1 && (d.memory.types[t].flags & wish) == wish) {
          found.push_back(t);
          break;
        }
    return found;
  };
  constexpr vk::Flags host = vk::kMemoryHostVisible | vk::kMemoryHostCoherent;
  memory_types_[int(Place::device)] = find({vk::kMemoryDeviceLocal, 0});
  memory_types_[int(Place::upload)] = find({host | vk::kMemoryDeviceLocal, host});
  memory_types_[int(Place::readback)] = find({host | vk::kMemoryHostCached, host});
  memory_ = d.memory;
  heap_ = memory_.types[memory_types_[0].front()].heap;
  writes_straight = facts_.type == vk::kIntegrated;
  if (const uint32_t both = memory_types_[int(Place::upload)].front();
      writes_straight && memory_.types[both].flags & vk::kMemoryDeviceLocal && memory_.types[both].heap == heap_)
    memory_types_[int(Place::device)].front() = both;

  const vk::PushConstantRange range{vk::kStageCompute, 0, kPushConstantBytes};
  const vk::PipelineLayoutCreateInfo layout{.range_count = 1, .ranges = &range};
  check(call.create_layout(handle, &layout, nullptr, &layout_));
  vk::PhysicalDeviceProperties2 properties;
  instance_->call.get_properties(physical_, &properties);
  vk::PipelineCacheCreateInfo cache{};
  if (are_of(pipelines, properties.properties)) cache.bytes = pipelines.size(), cache.data = pipelines.data();
  check(call.create_cache(handle, &cache, nullptr, &cache_));
}

Gpu::~Gpu() {
  if (!handle) return;
  forget_pipelines();
  if (cache_) call.destroy_cache(handle, cache_, nullptr);
  if (layout_) call.destroy_layout(handle, layout_, nullptr);
  call.destroy_device(handle, nullptr);
}

// Types of memory that buffers may have, a bit each: the same for all that are used alike.
uint32_t Gpu::types_of_buffers() const {
  const vk::BufferCreateInfo info{.size = 16, .usage = kBufferUsage};
  vk::Buffer buffer = 0;
  check(call.create_buffer(handle, &info, nullptr, &buffer));
  vk::MemoryRequirements needs{};
  call.get_buffer_requirements(handle, buffer, &needs);
  call.destroy_buffer(handle, buffer, nullptr);
  return needs.types;
}

void Gpu::forget_pipelines() {
  for (auto& [key, pipeline] : pipelines_) call.destroy_pipeline(handle, pipeline.handle, nullptr);
  pipelines_.clear();
}

std::vector<uint8_t> Gpu::pipelines() const {
  size_t bytes = 0;
  if (lost_ || call.get_cache_data(handle, cache_, &bytes, nullptr) != vk::kSuccess) return {};
  std::vector<uint8_t> data(bytes);
  if (call.get_cache_data(handle, cache_, &bytes, data.data()) != vk::kSuccess) return {};
  data.resize(bytes);
  return data;
}

template <class F> void Gpu::each_spare(F&& f) const {
  const std::lock_guard lock(spare_mutex_);
  for (const auto& weak : spare_)
    if (const auto spare = weak.lock()) f(*spare);
}

void Gpu::count_as_spare(const std::shared_ptr<Spare>& spare) {
  const std::lock_guard lock(spare_mutex_);
  std::erase_if(spare_, [](const auto& weak) { return weak.expired(); });
  spare_.push_back(spare);
}

int64_t Gpu::available() const {
  int64_t bytes = unused();
  each_spare([&](const Spare& spare) { bytes += spare.bytes(); });
  return bytes;
}

int64_t Gpu::unused() const {
  const int64_t found = available_of(instance_call, physical_, has_budget_, heap_);
  return has_budget_ ? found : std::max<int64_t>(0, found - taken_);
}

int64_t Gpu::max_piece(Parts parts) const {
  return parts == Parts::addressed ? facts_.max_allocation : std::min(facts_.max_allocation, kMaxCounted);
}

bool Gpu::is_own(Place place) const { return memory_.types[memory_types_[int(place)].front()].heap == heap_; }

void Gpu::plan(std::string part, int64_t bytes, int64_t largest) {
  part_ = std::move(part);
  if (largest > facts_.max_allocation) throw NoDeviceMemory(part_ + " in one piece", largest, facts_.max_allocation);
  if (bytes <= 0) return;
  if (const int64_t free = available(); bytes > free) throw NoDeviceMemory(part_, bytes, free);
  if (bytes > unused()) each_spare([](Spare& spare) { spare.let_go(); });
}

void Gpu::require_rows(const std::string& part, int rows) const {
  if (rows > max_groups_)
    throw backends::UnusableDevice(part + " is more than this device computes at once, which is " +
                                   std::to_string(max_groups_));
}

void Gpu::require_turns(const std::string& part, int64_t turns) const {
  if (!takes_turns(turns))
    throw backends::UnusableDevice(part + " is more than " + facts_.name + " computes: its driver ends loops after " +
                                   std::to_string(arithmetic_.max_turns) +
                                   " turns, as that of Mesa 22 does; take a later one");
}

void Gpu::check(vk::Result result, int64_t bytes) const {
  if (result >= 0) return;
  if (result == vk::kOutOfDeviceMemory || result == vk::kOutOfHostMemory)
    throw NoDeviceMemory(part_, bytes, available());
  lost_ = true;
  if (result == vk::kDeviceLost)
    throw DeviceLost(facts_.name + " was lost: its driver ended what it computed; open the model again");
  throw DeviceLost(facts_.name + " failed with " + std::to_string(int(result)));
}

void Gpu::set_arithmetic(const GpuArithmetic& arithmetic) {
  forget_pipelines();
  arithmetic_ = arithmetic;
}

const Gpu::Pipeline& Gpu::pipeline(Shader shader, ElementType type, const std::vector<uint32_t>& constants) {
  return make_pipeline(shader, type, constants, 0);
}

const Gpu::Pipeline& Gpu::matrix_pipeline(Shader shader, std::vector<uint32_t> constants,
                                          std::initializer_list<uint32_t> tile) {
  const MatrixShape& s = facts_.matrices;
  for (const int number : {s.m, s.n, s.k, kMatrixSubgroups * s.subgroup}) constants.push_back(uint32_t(number));
  constants.insert(constants.end(), tile);
  return make_pipeline(shader, {.bf16 = true}, std::move(constants), s.subgroup);
}

const Gpu::Pipeline& Gpu::make_pipeline(Shader shader, ElementType type, std::vector<uint32_t> constants,
                                        int subgroup) {
  constants.insert(constants.begin(), uint32_t(type.granule()));
  const auto found = pipelines_.find({shader, constants});
  if (found != pipelines_.end()) return found->second;

  const std::vector<uint32_t> words =
      shader_words(shader, {arithmetic_.fused, facts_.flushes_denormals, preserves_specials_, rounds_to_even_,
                            facts_.byte_products != ByteProducts::none});
  const vk::ShaderModuleCreateInfo info{.bytes = words.size() * 4, .code = words.data()};
  vk::ShaderModule module = 0;
  check(call.create_shader(handle, &info, nullptr, &module));

  std::vector<vk::SpecializationMapEntry> entries;
  for (uint32_t i = 0; i < constants.size(); i++) entries.push_back({i, 4 * i, 4});
  const vk::SpecializationInfo specialization{uint32_t(entries.size()), entries.data(), constants.size() * 4,
                                              constants.data()};
  vk::ComputePipelineCreateInfo create{};
  create.stage.stage = vk::kStageCompute;
  const vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo required{.size = uint32_t(subgroup)};
  if (subgroup) create.stage.next = &required, create.stage.flags = vk::kRequireFullSubgroups;
  create.stage.module = module;
  create.stage.name = "main";
  create.stage.specialization = &specialization;
  create.layout = layout_;
  vk::Pipeline pipeline = 0;
  const vk::Result result = call.create_pipelines(handle, cache_, 1, &create, nullptr, &pipeline);
  call.destroy_shader(handle, module, nullptr);
  check(result);
  return pipelines_.emplace(std::pair{shader, constants}, Pipeline{pipeline}).first->second;
}

}  // namespace anneal::vulkan
