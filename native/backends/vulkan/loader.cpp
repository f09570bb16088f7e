#include "loader.h"

#include <cstring>
#include <mutex>

#if defined(_WIN32)
#include <windows.h>
#else
#include <dlfcn.h>
#endif

namespace anneal::vulkan {
namespace {

// Never closed: drivers leave threads and handlers behind that run in it.
vk::GetInstanceProcAddr open_library() {
#if defined(_WIN32)
  // From the system's own folder only.
  if (HMODULE library = LoadLibraryExA("vulkan-1.dll", nullptr, LOAD_LIBRARY_SEARCH_SYSTEM32))
    return reinterpret_cast<vk::GetInstanceProcAddr>(
        reinterpret_cast<void*>(GetProcAddress(library, "vkGetInstanceProcAddr")));
  return nullptr;
#else
#if defined(__APPLE__)
  constexpr const char* names[] = {"libvulkan.1.dylib", "libvulkan.dylib", "libMoltenVK.dylib"};
#else
  constexpr const char* names[] = {"libvulkan.so.1", "libvulkan.so"};
#endif
  for (const char* name : names)
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL))
      if (void* found = dlsym(library, "vkGetInstanceProcAddr"))
        return reinterpret_cast<vk::GetInstanceProcAddr>(found);
  return nullptr;
#endif
}

#define ANNEAL_VK_LOAD(member, name, result, parameters)                                            \
  to.member = reinterpret_cast<decltype(to.member)>(reinterpret_cast<void*>(find(instance, name))); \
  if (!to.member) return false;
#define ANNEAL_VK_FIND(member, name, result, parameters) \
  to.member = reinterpret_cast<decltype(to.member)>(reinterpret_cast<void*>(find(instance, name)));

bool load(vk::GetInstanceProcAddr find, vk::GlobalFunctions& to) {
  const vk::Instance instance = nullptr;
  ANNEAL_VK_GLOBAL(ANNEAL_VK_LOAD)
  return true;
}
bool load(vk::GetInstanceProcAddr find, vk::Instance instance, vk::InstanceFunctions& to) {
  ANNEAL_VK_OPTIONAL(ANNEAL_VK_FIND)
  ANNEAL_VK_INSTANCE(ANNEAL_VK_LOAD)
  return true;
}
#undef ANNEAL_VK_FIND
#undef ANNEAL_VK_LOAD

// Drivers that implement a part of Vulkan (Apple's GPUs) are listed on request only.
constexpr const char* kPortability = "VK_KHR_portability_enumeration";

bool has_extension(const vk::GlobalFunctions& call, const char* wanted) {
  uint32_t count = 0;
  if (call.enumerate_instance_extensions(nullptr, &count, nullptr) != vk::kSuccess) return false;
  std::vector<vk::ExtensionProperties> found(count);
  if (call.enumerate_instance_extensions(nullptr, &count, found.data()) < 0) return false;
  for (uint32_t i = 0; i < count; i++)
    if (std::strcmp(found[i].name, wanted) == 0) return true;
  return false;
}

}  // namespace

std::shared_ptr<const Instance> Instance::open() {
  static std::mutex mutex;
  static std::weak_ptr<const Instance> known;
  std::lock_guard lock(mutex);
  if (auto instance = known.lock()) return instance;

  static const vk::GetInstanceProcAddr find = open_library();
  vk::GlobalFunctions call;
  if (!find || !load(find, call)) return nullptr;
  uint32_t version = 0;
  if (call.enumerate_instance_version(&version) != vk::kSuccess || version < vk::kApiVersion1_2) return nullptr;

  const vk::ApplicationInfo application{.application_name = "anneal", .api_version = vk::kApiVersion1_2};
  vk::InstanceCreateInfo info{.application = &application};
  if (has_extension(call, kPortability)) {
    info.flags = vk::kInstanceEnumeratePortability;
    info.extension_count = 1, info.extensions = &kPortability;
  }
  std::shared_ptr<Instance> made(new Instance());
  if (call.create_instance(&info, nullptr, &made->handle) != vk::kSuccess) return nullptr;
  if (!load(find, made->handle, made->call)) return nullptr;
  known = made;
  return made;
}

Instance::~Instance() {
  if (handle && call.destroy_instance) call.destroy_instance(handle, nullptr);
}

std::vector<vk::PhysicalDevice> Instance::devices() const {
  uint32_t count = 0;
  if (call.enumerate_physical_devices(handle, &count, nullptr) != vk::kSuccess) return {};
  std::vector<vk::PhysicalDevice> all(count), recent;
  if (call.enumerate_physical_devices(handle, &count, all.data()) < 0) return {};
  for (uint32_t i = 0; i < count; i++) {
    vk::PhysicalDeviceProperties2 properties;
    call.get_properties(all[i], &properties);
    if (properties.properties.api_version >= vk::kApiVersion1_2) recent.push_back(all[i]);
  }
  return recent;
}

}  // namespace anneal::vulkan
