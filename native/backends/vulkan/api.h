// As much of Vulkan 1.2 as compute needs: handles, structures and functions as the loader's binary interface has them,
// by the names of the specification, so that building needs no SDK. Values are of the registry; api_test.cpp compares
// them with the system's headers where there are any.
#pragma once
#include <cstddef>
#include <cstdint>

#if defined(_WIN32)
#define ANNEAL_VKAPI __stdcall
#else
#define ANNEAL_VKAPI
#endif

namespace anneal::vulkan::vk {

using Flags = uint32_t;
using Bool32 = uint32_t;
using DeviceSize = uint64_t;
using DeviceAddress = uint64_t;

struct Instance_T;
struct PhysicalDevice_T;
struct Device_T;
struct Queue_T;
struct CommandBuffer_T;
using Instance = Instance_T*;
using PhysicalDevice = PhysicalDevice_T*;
using Device = Device_T*;
using Queue = Queue_T*;
using CommandBuffer = CommandBuffer_T*;
// Handles that are no pointers on every platform.
using Buffer = uint64_t;
using DeviceMemory = uint64_t;
using ShaderModule = uint64_t;
using PipelineLayout = uint64_t;
using Pipeline = uint64_t;
using PipelineCache = uint64_t;
using CommandPool = uint64_t;
using Fence = uint64_t;

enum Result : int32_t {
  kSuccess = 0,
  kNotReady = 1,
  kTimeout = 2,
  kOutOfHostMemory = -1,
  kOutOfDeviceMemory = -2,
  kInitializationFailed = -3,
  kDeviceLost = -4,
};

enum StructureType : int32_t {
  kApplicationInfo = 0,
  kInstanceCreateInfo = 1,
  kDeviceQueueCreateInfo = 2,
  kDeviceCreateInfo = 3,
  kSubmitInfo = 4,
  kMemoryAllocateInfo = 5,
  kFenceCreateInfo = 8,
  kBufferCreateInfo = 12,
  kShaderModuleCreateInfo = 16,
  kPipelineCacheCreateInfo = 17,
  kPipelineShaderStageCreateInfo = 18,
  kComputePipelineCreateInfo = 29,
  kPipelineLayoutCreateInfo = 30,
  kCommandPoolCreateInfo = 39,
  kCommandBufferAllocateInfo = 40,
  kCommandBufferBeginInfo = 42,
  kMemoryBarrier = 46,
  kPhysicalDeviceVulkan11Features = 49,
  kPhysicalDeviceVulkan12Features = 51,
  kPhysicalDeviceFeatures2 = 1000059000,
  kPhysicalDeviceProperties2 = 1000059001,
  kPhysicalDeviceMemoryProperties2 = 1000059006,
  kMemoryAllocateFlagsInfo = 1000060000,
  kPhysicalDeviceSubgroupProperties = 1000094000,
  kPhysicalDeviceMaintenance3Properties = 1000168000,
  kPhysicalDeviceDriverProperties = 1000196000,
  kPhysicalDeviceFloatControlsProperties = 1000197000,
  kPipelineShaderStageRequiredSubgroupSizeCreateInfo = 1000225001,
  kPhysicalDeviceSubgroupSizeControlFeatures = 1000225002,
  kPhysicalDeviceMemoryBudgetProperties = 1000237000,
  kBufferDeviceAddressInfo = 1000244001,
  kPhysicalDeviceShaderIntegerDotProductFeatures = 1000280000,
  kPhysicalDeviceShaderIntegerDotProductProperties = 1000280001,
  kPhysicalDeviceCooperativeMatrixFeatures = 1000506000,
  kCooperativeMatrixProperties = 1000506001,
};

constexpr uint32_t kApiVersion1_2 = 1u << 22 | 2u << 12;
constexpr uint32_t kQueueFamilyIgnored = ~0u;
constexpr uint32_t kMaxMemoryTypes = 32, kMaxMemoryHeaps = 16, kMaxName = 256, kUuidSize = 16;

constexpr Flags kQueueCompute = 2;
constexpr Flags kMemoryDeviceLocal = 1, kMemoryHostVisible = 2, kMemoryHostCoherent = 4, kMemoryHostCached = 8;
constexpr Flags kHeapDeviceLocal = 1;
constexpr Flags kUsageTransferSource = 1, kUsageTransferDestination = 2, kUsageStorage = 0x20,
                kUsageDeviceAddress = 0x20000;
constexpr Flags kAllocateDeviceAddress = 2;
constexpr Flags kStageCompute = 0x20, kRequireFullSubgroups = 2;
constexpr int32_t kComponentFloat16 = 0, kComponentFloat32 = 1, kScopeSubgroup = 3;
constexpr Flags kPipelineStageCompute = 0x800, kPipelineStageTransfer = 0x1000, kPipelineStageHost = 0x4000;
constexpr Flags kAccessShaderRead = 0x20, kAccessShaderWrite = 0x40, kAccessTransferRead = 0x800,
                kAccessTransferWrite = 0x1000, kAccessHostRead = 0x2000, kAccessHostWrite = 0x4000;
constexpr Flags kCommandBufferOneTime = 1;
constexpr Flags kInstanceEnumeratePortability = 1;
constexpr int32_t kBindPointCompute = 1;

enum DeviceType : int32_t { kOther = 0, kIntegrated = 1, kDiscrete = 2, kVirtual = 3, kCpu = 4 };

struct Extent3D {
  uint32_t width, height, depth;
};
struct ApplicationInfo {
  StructureType type = kApplicationInfo;
  const void* next = nullptr;
  const char* application_name = nullptr;
  uint32_t application_version = 0;
  const char* engine_name = nullptr;
  uint32_t engine_version = 0, api_version = 0;
};
struct InstanceCreateInfo {
  StructureType type = kInstanceCreateInfo;
  const void* next = nullptr;
  Flags flags = 0;
  const ApplicationInfo* application = nullptr;
  uint32_t layer_count = 0;
  const char* const* layers = nullptr;
  uint32_t extension_count = 0;
  const char* const* extensions = nullptr;
};
struct ExtensionProperties {
  char name[kMaxName];
  uint32_t version;
};

// Bytes of the limits, and where in them those stand that are asked for.
constexpr size_t kLimitsBytes = 504, kMaxSharedMemoryAt = 216, kMaxGroupsAt = 220, kMaxInvocationsAt = 232;

struct PhysicalDeviceProperties {
  uint32_t api_version, driver_version, vendor, device;
  DeviceType device_type;
  char name[kMaxName];
  uint8_t pipeline_cache_uuid[kUuidSize];
  alignas(8) uint8_t limits[kLimitsBytes];
  Bool32 sparse[5];
};
struct PhysicalDeviceProperties2 {
  StructureType type = kPhysicalDeviceProperties2;
  void* next = nullptr;
  PhysicalDeviceProperties properties{};
};
struct PhysicalDeviceMaintenance3Properties {
  StructureType type = kPhysicalDeviceMaintenance3Properties;
  void* next = nullptr;
  uint32_t max_per_set_descriptors = 0;
  DeviceSize max_memory_allocation_size = 0;
};
struct PhysicalDeviceDriverProperties {
  StructureType type = kPhysicalDeviceDriverProperties;
  void* next = nullptr;
  int32_t driver_id = 0;
  char driver_name[kMaxName] = {}, driver_info[kMaxName] = {};
  uint8_t conformance_version[4] = {};
};
struct PhysicalDeviceFloatControlsProperties {
  StructureType type = kPhysicalDeviceFloatControlsProperties;
  void* next = nullptr;
  int32_t denorm_independence = 0, rounding_independence = 0;
  Bool32 signed_zero_inf_nan_preserve16 = 0, signed_zero_inf_nan_preserve32 = 0, signed_zero_inf_nan_preserve64 = 0,
         denorm_preserve16 = 0, denorm_preserve32 = 0, denorm_preserve64 = 0, denorm_flush16 = 0, denorm_flush32 = 0,
         denorm_flush64 = 0, rounding_rte16 = 0, rounding_rte32 = 0, rounding_rte64 = 0, rounding_rtz16 = 0,
         rounding_rtz32 = 0, rounding_rtz64 = 0;
};

struct PhysicalDeviceFeatures {
  Bool32 before[39];
  Bool32 shader_float64, shader_int64, shader_int16;
  Bool32 after[13];
};
struct PhysicalDeviceFeatures2 {
  StructureType type = kPhysicalDeviceFeatures2;
  void* next = nullptr;
  PhysicalDeviceFeatures features{};
};
struct PhysicalDeviceVulkan11Features {
  StructureType type = kPhysicalDeviceVulkan11Features;
  void* next = nullptr;
  Bool32 storage_buffer_16_bit_access = 0, others[11] = {};
};
struct PhysicalDeviceVulkan12Features {
  StructureType type = kPhysicalDeviceVulkan12Features;
  void* next = nullptr;
  Bool32 before[7] = {};
  Bool32 shader_float16 = 0;
  Bool32 between[30] = {};
  Bool32 buffer_device_address = 0;
  Bool32 behind[2] = {};
  Bool32 vulkan_memory_model = 0, vulkan_memory_model_device_scope = 0;
  Bool32 after[5] = {};
};
struct PhysicalDeviceSubgroupProperties {
  StructureType type = kPhysicalDeviceSubgroupProperties;
  void* next = nullptr;
  uint32_t size = 0;
  Flags stages = 0, operations = 0;
  Bool32 quad_operations = 0;
};
struct PhysicalDeviceSubgroupSizeControlFeatures {
  StructureType type = kPhysicalDeviceSubgroupSizeControlFeatures;
  void* next = nullptr;
  Bool32 subgroup_size_control = 0, compute_full_subgroups = 0;
};
struct PhysicalDeviceShaderIntegerDotProductFeatures {
  StructureType type = kPhysicalDeviceShaderIntegerDotProductFeatures;
  void* next = nullptr;
  Bool32 shader_integer_dot_product = 0;
};
struct PhysicalDeviceShaderIntegerDotProductProperties {
  StructureType type = kPhysicalDeviceShaderIntegerDotProductProperties;
  void* next = nullptr;
  Bool32 before[4] = {}, packed_signed_bytes_accelerated = 0, after[25] = {};
};
struct PhysicalDeviceCooperativeMatrixFeatures {
  StructureType type = kPhysicalDeviceCooperativeMatrixFeatures;
  void* next = nullptr;
  Bool32 cooperative_matrix = 0, robust_buffer_access = 0;
};
// Of A [m][k], B [k][n], C and the result [m][n].
struct CooperativeMatrixProperties {
  StructureType type = kCooperativeMatrixProperties;
  void* next = nullptr;
  uint32_t m = 0, n = 0, k = 0;
  int32_t a = 0, b = 0, c = 0, result = 0;
  Bool32 saturating = 0;
  int32_t scope = 0;
};

struct QueueFamilyProperties {
  Flags flags;
  uint32_t count, timestamp_bits;
  Extent3D granularity;
};
struct MemoryType {
  Flags flags;
  uint32_t heap;
};
struct MemoryHeap {
  DeviceSize size;
  Flags flags;
};
struct PhysicalDeviceMemoryProperties {
  uint32_t type_count;
  MemoryType types[kMaxMemoryTypes];
  uint32_t heap_count;
  MemoryHeap heaps[kMaxMemoryHeaps];
};
struct PhysicalDeviceMemoryProperties2 {
  StructureType type = kPhysicalDeviceMemoryProperties2;
  void* next = nullptr;
  PhysicalDeviceMemoryProperties properties{};
};
struct PhysicalDeviceMemoryBudgetProperties {
  StructureType type = kPhysicalDeviceMemoryBudgetProperties;
  void* next = nullptr;
  DeviceSize budget[kMaxMemoryHeaps] = {}, usage[kMaxMemoryHeaps] = {};
};

struct DeviceQueueCreateInfo {
  StructureType type = kDeviceQueueCreateInfo;
  const void* next = nullptr;
  Flags flags = 0;
  uint32_t family = 0, count = 0;
  const float* priorities = nullptr;
};
struct DeviceCreateInfo {
  StructureType type = kDeviceCreateInfo;
  const void* next = nullptr;
  Flags flags = 0;
  uint32_t queue_count = 0;
  const DeviceQueueCreateInfo* queues = nullptr;
  uint32_t layer_count = 0;
  const char* const* layers = nullptr;
  uint32_t extension_count = 0;
  const char* const* extensions = nullptr;
  const PhysicalDeviceFeatures* features = nullptr;
};

struct BufferCreateInfo {
  StructureType type = kBufferCreateInfo;
  const void* next = nullptr;
  Flags flags = 0;
  DeviceSize size = 0;
  Flags usage = 0;
  int32_t sharing = 0;
  uint32_t family_count = 0;
  const uint32_t* families = nullptr;
};
struct MemoryRequirements {
  DeviceSize size, alignment;
  uint32_t types;
};
struct MemoryAllocateFlagsInfo {
  StructureType type = kMemoryAllocateFlagsInfo;
  const void* next = nullptr;
  Flags flags = 0;
  uint32_t device_mask = 0;
};
struct MemoryAllocateInfo {
  StructureType type = kMemoryAllocateInfo;
  const void* next = nullptr;
  DeviceSize size = 0;
  uint32_t memory_type = 0;
};
struct BufferDeviceAddressInfo {
  StructureType type = kBufferDeviceAddressInfo;
  const void* next = nullptr;
  Buffer buffer = 0;
};

struct ShaderModuleCreateInfo {
  StructureType type = kShaderModuleCreateInfo;
  const void* next = nullptr;
  Flags flags = 0;
  size_t bytes = 0;
  const uint32_t* code = nullptr;
};
struct SpecializationMapEntry {
  uint32_t id, offset;
  size_t size;
};
struct SpecializationInfo {
  uint32_t count = 0;
  const SpecializationMapEntry* entries = nullptr;
  size_t bytes = 0;
  const void* data = nullptr;
};
struct PipelineShaderStageRequiredSubgroupSizeCreateInfo {
  StructureType type = kPipelineShaderStageRequiredSubgroupSizeCreateInfo;
  void* next = nullptr;
  uint32_t size = 0;
};
struct PipelineShaderStageCreateInfo {
  StructureType type = kPipelineShaderStageCreateInfo;
  const void* next = nullptr;
  Flags flags = 0, stage = 0;
  ShaderModule module = 0;
  const char* name = nullptr;
  const SpecializationInfo* specialization = nullptr;
};
struct ComputePipelineCreateInfo {
  StructureType type = kComputePipelineCreateInfo;
  const void* next = nullptr;
  Flags flags = 0;
  PipelineShaderStageCreateInfo stage{};
  PipelineLayout layout = 0;
  Pipeline base = 0;
  int32_t base_index = 0;
};
struct PushConstantRange {
  Flags stages;
  uint32_t offset, size;
};
struct PipelineLayoutCreateInfo {
  StructureType type = kPipelineLayoutCreateInfo;
  const void* next = nullptr;
  Flags flags = 0;
  uint32_t set_count = 0;
  const void* sets = nullptr;
  uint32_t range_count = 0;
  const PushConstantRange* ranges = nullptr;
};
struct PipelineCacheCreateInfo {
  StructureType type = kPipelineCacheCreateInfo;
  const void* next = nullptr;
  Flags flags = 0;
  size_t bytes = 0;
  const void* data = nullptr;
};
struct CommandPoolCreateInfo {
  StructureType type = kCommandPoolCreateInfo;
  const void* next = nullptr;
  Flags flags = 0;
  uint32_t family = 0;
};
struct CommandBufferAllocateInfo {
  StructureType type = kCommandBufferAllocateInfo;
  const void* next = nullptr;
  CommandPool pool = 0;
  int32_t level = 0;
  uint32_t count = 0;
};
struct CommandBufferBeginInfo {
  StructureType type = kCommandBufferBeginInfo;
  const void* next = nullptr;
  Flags flags = 0;
  const void* inheritance = nullptr;
};
struct MemoryBarrier {
  StructureType type = kMemoryBarrier;
  const void* next = nullptr;
  Flags source = 0, destination = 0;
};
struct BufferCopy {
  DeviceSize source, destination, size;
};
struct FenceCreateInfo {
  StructureType type = kFenceCreateInfo;
  const void* next = nullptr;
  Flags flags = 0;
};
struct SubmitInfo {
  StructureType type = kSubmitInfo;
  const void* next = nullptr;
  uint32_t wait_count = 0;
  const uint64_t* waits = nullptr;
  const Flags* wait_stages = nullptr;
  uint32_t buffer_count = 0;
  const CommandBuffer* buffers = nullptr;
  uint32_t signal_count = 0;
  const uint64_t* signals = nullptr;
};

using VoidFunction = void(ANNEAL_VKAPI*)();
using GetInstanceProcAddr = VoidFunction(ANNEAL_VKAPI*)(Instance, const char*);
using GetDeviceProcAddr = VoidFunction(ANNEAL_VKAPI*)(Device, const char*);

// X(member, "name", result, parameters): functions by whom they are asked of.
#define ANNEAL_VK_GLOBAL(X)                                                          \
  X(enumerate_instance_version, "vkEnumerateInstanceVersion", Result, (uint32_t*))   \
  X(enumerate_instance_extensions, "vkEnumerateInstanceExtensionProperties", Result, \
    (const char*, uint32_t*, ExtensionProperties*))                                  \
  X(create_instance, "vkCreateInstance", Result, (const InstanceCreateInfo*, const void*, Instance*))

#define ANNEAL_VK_INSTANCE(X)                                                                                 \
  X(destroy_instance, "vkDestroyInstance", void, (Instance, const void*))                                     \
  X(enumerate_physical_devices, "vkEnumeratePhysicalDevices", Result, (Instance, uint32_t*, PhysicalDevice*)) \
  X(get_properties, "vkGetPhysicalDeviceProperties2", void, (PhysicalDevice, PhysicalDeviceProperties2*))     \
  X(get_features, "vkGetPhysicalDeviceFeatures2", void, (PhysicalDevice, PhysicalDeviceFeatures2*))           \
  X(get_memory_properties, "vkGetPhysicalDeviceMemoryProperties2", void,                                      \
    (PhysicalDevice, PhysicalDeviceMemoryProperties2*))                                                       \
  X(get_queue_families, "vkGetPhysicalDeviceQueueFamilyProperties", void,                                     \
    (PhysicalDevice, uint32_t*, QueueFamilyProperties*))                                                      \
  X(enumerate_device_extensions, "vkEnumerateDeviceExtensionProperties", Result,                              \
    (PhysicalDevice, const char*, uint32_t*, ExtensionProperties*))                                           \
  X(create_device, "vkCreateDevice", Result, (PhysicalDevice, const DeviceCreateInfo*, const void*, Device*)) \
  X(get_device_proc_addr, "vkGetDeviceProcAddr", VoidFunction, (Device, const char*))

// Those of extensions, which may be missing.
#define ANNEAL_VK_OPTIONAL(X)                                                              \
  X(get_cooperative_matrices, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR", Result, \
    (PhysicalDevice, uint32_t*, CooperativeMatrixProperties*))

#define ANNEAL_VK_DEVICE(X)                                                                                       \
  X(destroy_device, "vkDestroyDevice", void, (Device, const void*))                                               \
  X(get_queue, "vkGetDeviceQueue", void, (Device, uint32_t, uint32_t, Queue*))                                    \
  X(create_buffer, "vkCreateBuffer", Result, (Device, const BufferCreateInfo*, const void*, Buffer*))             \
  X(destroy_buffer, "vkDestroyBuffer", void, (Device, Buffer, const void*))                                       \
  X(get_buffer_requirements, "vkGetBufferMemoryRequirements", void, (Device, Buffer, MemoryRequirements*))        \
  X(allocate_memory, "vkAllocateMemory", Result, (Device, const MemoryAllocateInfo*, const void*, DeviceMemory*)) \
  X(free_memory, "vkFreeMemory", void, (Device, DeviceMemory, const void*))                                       \
  X(bind_buffer, "vkBindBufferMemory", Result, (Device, Buffer, DeviceMemory, DeviceSize))                        \
  X(map_memory, "vkMapMemory", Result, (Device, DeviceMemory, DeviceSize, DeviceSize, Flags, void**))             \
  X(get_buffer_address, "vkGetBufferDeviceAddress", DeviceAddress, (Device, const BufferDeviceAddressInfo*))      \
  X(create_shader, "vkCreateShaderModule", Result,                                                                \
    (Device, const ShaderModuleCreateInfo*, const void*, ShaderModule*))                                          \
  X(destroy_shader, "vkDestroyShaderModule", void, (Device, ShaderModule, const void*))                           \
  X(create_layout, "vkCreatePipelineLayout", Result,                                                              \
    (Device, const PipelineLayoutCreateInfo*, const void*, PipelineLayout*))                                      \
  X(destroy_layout, "vkDestroyPipelineLayout", void, (Device, PipelineLayout, const void*))                       \
  X(create_pipelines, "vkCreateComputePipelines", Result,                                                         \
    (Device, PipelineCache, uint32_t, const ComputePipelineCreateInfo*, const void*, Pipeline*))                  \
  X(destroy_pipeline, "vkDestroyPipeline", void, (Device, Pipeline, const void*))                                 \
  X(create_cache, "vkCreatePipelineCache", Result,                                                                \
    (Device, const PipelineCacheCreateInfo*, const void*, PipelineCache*))                                        \
  X(get_cache_data, "vkGetPipelineCacheData", Result, (Device, PipelineCache, size_t*, void*))                    \
  X(destroy_cache, "vkDestroyPipelineCache", void, (Device, PipelineCache, const void*))                          \
  X(create_command_pool, "vkCreateCommandPool", Result,                                                           \
    (Device, const CommandPoolCreateInfo*, const void*, CommandPool*))                                            \
  X(destroy_command_pool, "vkDestroyCommandPool", void, (Device, CommandPool, const void*))                       \
  X(reset_command_pool, "vkResetCommandPool", Result, (Device, CommandPool, Flags))                               \
  X(allocate_command_buffers, "vkAllocateCommandBuffers", Result,                                                 \
    (Device, const CommandBufferAllocateInfo*, CommandBuffer*))                                                   \
  X(begin_commands, "vkBeginCommandBuffer", Result, (CommandBuffer, const CommandBufferBeginInfo*))               \
  X(end_commands, "vkEndCommandBuffer", Result, (CommandBuffer))                                                  \
  X(bind_pipeline, "vkCmdBindPipeline", void, (CommandBuffer, int32_t, Pipeline))                                 \
  X(push_constants, "vkCmdPushConstants", void,                                                                   \
    (CommandBuffer, PipelineLayout, Flags, uint32_t, uint32_t, const void*))                                      \
  X(dispatch, "vkCmdDispatch", void, (CommandBuffer, uint32_t, uint32_t, uint32_t))                               \
  X(pipeline_barrier, "vkCmdPipelineBarrier", void,                                                               \
    (CommandBuffer, Flags, Flags, Flags, uint32_t, const MemoryBarrier*, uint32_t, const void*, uint32_t,         \
     const void*))                                                                                                \
  X(copy_buffer, "vkCmdCopyBuffer", void, (CommandBuffer, Buffer, Buffer, uint32_t, const BufferCopy*))           \
  X(fill_buffer, "vkCmdFillBuffer", void, (CommandBuffer, Buffer, DeviceSize, DeviceSize, uint32_t))              \
  X(create_fence, "vkCreateFence", Result, (Device, const FenceCreateInfo*, const void*, Fence*))                 \
  X(destroy_fence, "vkDestroyFence", void, (Device, Fence, const void*))                                          \
  X(reset_fences, "vkResetFences", Result, (Device, uint32_t, const Fence*))                                      \
  X(get_fence_status, "vkGetFenceStatus", Result, (Device, Fence))                                                \
  X(wait_fences, "vkWaitForFences", Result, (Device, uint32_t, const Fence*, Bool32, uint64_t))                   \
  X(queue_submit, "vkQueueSubmit", Result, (Queue, uint32_t, const SubmitInfo*, Fence))                           \
  X(device_wait_idle, "vkDeviceWaitIdle", Result, (Device))

#define ANNEAL_VK_MEMBER(member, name, result, parameters) result(ANNEAL_VKAPI* member) parameters = nullptr;
struct GlobalFunctions {
  ANNEAL_VK_GLOBAL(ANNEAL_VK_MEMBER)
};
struct InstanceFunctions {
  ANNEAL_VK_INSTANCE(ANNEAL_VK_MEMBER)
  ANNEAL_VK_OPTIONAL(ANNEAL_VK_MEMBER)
};
struct DeviceFunctions {
  ANNEAL_VK_DEVICE(ANNEAL_VK_MEMBER)
};
#undef ANNEAL_VK_MEMBER

}  // namespace anneal::vulkan::vk
