// A loader of Vulkan that stands before the real one, at $REAL_VULKAN, and hides what $LACKS names of its drivers.
// Where $HEAP is set, their memory has so many bytes, and they do not say how much of it is free; where $DISCRETE is,
// they are no software; where $FOREIGN is, no buffer may have the first type of their memory.
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>

#include "../../native/backends/vulkan/api.h"

namespace vk = anneal::vulkan::vk;

namespace {

bool lacks(const char* what) {
  const char* const all = std::getenv("LACKS");
  return all && std::strstr(all, what);
}

vk::GetInstanceProcAddr real() {
  static const auto found = reinterpret_cast<vk::GetInstanceProcAddr>(
      dlsym(dlopen(std::getenv("REAL_VULKAN"), RTLD_NOW), "vkGetInstanceProcAddr"));
  return found;
}

decltype(vk::InstanceFunctions::get_features) real_features;
void features(vk::PhysicalDevice device, vk::PhysicalDeviceFeatures2* to) {
  real_features(device, to);
  struct Link {
    vk::StructureType type;
    void* next;
  };
  for (auto* link = static_cast<Link*>(to->next); link; link = static_cast<Link*>(link->next)) {
    if (link->type == vk::kPhysicalDeviceVulkan12Features && lacks("addresses"))
      reinterpret_cast<vk::PhysicalDeviceVulkan12Features*>(link)->buffer_device_address = 0;
    if (link->type == vk::kPhysicalDeviceVulkan11Features && lacks("16 bits"))
      reinterpret_cast<vk::PhysicalDeviceVulkan11Features*>(link)->storage_buffer_16_bit_access = 0;
  }
}

decltype(vk::InstanceFunctions::get_properties) real_properties;
void properties(vk::PhysicalDevice device, vk::PhysicalDeviceProperties2* to) {
  real_properties(device, to);
  const auto limit = [&](size_t at, uint32_t value) { std::memcpy(to->properties.limits + at, &value, sizeof value); };
  if (lacks("shared memory")) limit(vk::kMaxSharedMemoryAt, 16 << 10);
  if (lacks("invocations")) limit(vk::kMaxInvocationsAt, 128);
  if (std::getenv("DISCRETE")) to->properties.device_type = vk::kDiscrete;
}

decltype(vk::InstanceFunctions::get_queue_families) real_queues;
void queues(vk::PhysicalDevice device, uint32_t* count, vk::QueueFamilyProperties* to) {
  real_queues(device, count, to);
  for (uint32_t i = 0; to && i < *count && lacks("queue"); i++) to[i].flags = 0;
}

decltype(vk::InstanceFunctions::get_memory_properties) real_memory;
void memory(vk::PhysicalDevice device, vk::PhysicalDeviceMemoryProperties2* to) {
  real_memory(device, to);
  if (const char* const bytes = std::getenv("HEAP"))
    for (vk::MemoryHeap& heap : to->properties.heaps) heap.size = vk::DeviceSize(std::atoll(bytes));
  if (!std::getenv("FOREIGN")) return;
  vk::PhysicalDeviceMemoryProperties& all = to->properties;
  for (uint32_t t = all.type_count++; t > 0; t--) all.types[t] = all.types[t - 1];
  all.types[0].flags = vk::kMemoryDeviceLocal;
}

decltype(vk::DeviceFunctions::get_buffer_requirements) real_requirements;
void requirements(vk::Device device, vk::Buffer buffer, vk::MemoryRequirements* to) {
  real_requirements(device, buffer, to);
  to->types <<= 1;
}
decltype(vk::DeviceFunctions::allocate_memory) real_allocate;
vk::Result allocate(vk::Device device, const vk::MemoryAllocateInfo* info, const void* allocator, vk::DeviceMemory* to) {
  if (info->memory_type == 0) return vk::kOutOfDeviceMemory;
  vk::MemoryAllocateInfo own = *info;
  own.memory_type--;
  return real_allocate(device, &own, allocator, to);
}

decltype(vk::InstanceFunctions::enumerate_device_extensions) real_extensions;
vk::Result extensions(vk::PhysicalDevice device, const char* layer, uint32_t* count, vk::ExtensionProperties* to) {
  const vk::Result result = real_extensions(device, layer, count, to);
  for (uint32_t i = 0; to && i < *count && std::getenv("HEAP"); i++)
    if (std::strcmp(to[i].name, "VK_EXT_memory_budget") == 0) to[i].name[0] = '-';
  return result;
}

template <class F> void* stand_before(F& to, void* found, F instead) {
  to = reinterpret_cast<F>(found);
  return reinterpret_cast<void*>(instead);
}

vk::GetDeviceProcAddr real_function;
vk::VoidFunction device_function(vk::Device device, const char* name) {
  const vk::VoidFunction found = real_function(device, name);
  const auto before = [&](auto& to, auto instead) {
    return reinterpret_cast<vk::VoidFunction>(stand_before(to, reinterpret_cast<void*>(found), instead));
  };
  if (std::strcmp(name, "vkGetBufferMemoryRequirements") == 0) return before(real_requirements, &requirements);
  if (std::strcmp(name, "vkAllocateMemory") == 0) return before(real_allocate, &allocate);
  return found;
}

}  // namespace

extern "C" void* vkGetInstanceProcAddr(vk::Instance instance, const char* name) {
  void* const found = reinterpret_cast<void*>(real()(instance, name));
  const auto is = [&](const char* other) { return std::strcmp(name, other) == 0; };
  if (is("vkGetPhysicalDeviceFeatures2")) return stand_before(real_features, found, &features);
  if (is("vkGetPhysicalDeviceProperties2")) return stand_before(real_properties, found, &properties);
  if (is("vkGetPhysicalDeviceQueueFamilyProperties")) return stand_before(real_queues, found, &queues);
  if (is("vkGetPhysicalDeviceMemoryProperties2")) return stand_before(real_memory, found, &memory);
  if (is("vkGetDeviceProcAddr") && std::getenv("FOREIGN")) return stand_before(real_function, found, &device_function);
  if (is("vkEnumerateDeviceExtensionProperties")) return stand_before(real_extensions, found, &extensions);
  return found;
}
