// Vulkan's loader, opened at run time: where there is none, there are no devices, and nothing is said.
#pragma once
#include <memory>
#include <vector>

#include "api.h"

namespace anneal::vulkan {

// An instance of Vulkan with its functions. One for all of a process, kept while anybody uses it.
class Instance {
 public:
  // Null where there is no loader, no driver, or none of Vulkan 1.2.
  static std::shared_ptr<const Instance> open();
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  vk::Instance handle = nullptr;
  vk::InstanceFunctions call;
  // Of Vulkan 1.2 and later, in the order of the loader.
  std::vector<vk::PhysicalDevice> devices() const;

 private:
  Instance() = default;
};

}  // namespace anneal::vulkan
