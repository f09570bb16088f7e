// A loader of Vulkan that stands before the real one, at $REAL_VULKAN, and has what stands between two barriers done in
// the opposite order: what may run at the same time must not care. Devices in software do all in order, and validation
// does not see what shaders reach by addresses.
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "../../native/backends/vulkan/api.h"

namespace vk = anneal::vulkan::vk;

namespace {

vk::DeviceFunctions call;

struct Recorded {
  vk::Pipeline pipeline = 0;
  vk::PipelineLayout layout = 0;
  std::vector<char> parameters;
  std::vector<std::function<void()>> waiting;  // since the last barrier
};
std::mutex mutex;
std::map<vk::CommandBuffer, Recorded> all;
Recorded& of(vk::CommandBuffer commands) {
  const std::lock_guard lock(mutex);
  return all[commands];
}
void record(vk::CommandBuffer commands) {
  auto& waiting = of(commands).waiting;
  for (auto next = waiting.rbegin(); next != waiting.rend(); ++next) (*next)();
  waiting.clear();
}

vk::Result begin(vk::CommandBuffer commands, const vk::CommandBufferBeginInfo* info) {
  of(commands) = {};
  return call.begin_commands(commands, info);
}
vk::Result end(vk::CommandBuffer commands) {
  record(commands);
  return call.end_commands(commands);
}
void bind(vk::CommandBuffer commands, int32_t, vk::Pipeline pipeline) { of(commands).pipeline = pipeline; }
void push(vk::CommandBuffer commands, vk::PipelineLayout layout, vk::Flags, uint32_t at, uint32_t bytes,
          const void* values) {
  Recorded& to = of(commands);
  to.layout = layout;
  to.parameters.resize(at);
  const auto* const from = static_cast<const char*>(values);
  to.parameters.insert(to.parameters.end(), from, from + bytes);
}
void dispatch(vk::CommandBuffer commands, uint32_t x, uint32_t y, uint32_t z) {
  Recorded& to = of(commands);
  to.waiting.emplace_back([commands, x, y, z, pipeline = to.pipeline, layout = to.layout, parameters = to.parameters] {
    call.bind_pipeline(commands, vk::kBindPointCompute, pipeline);
    call.push_constants(commands, layout, vk::kStageCompute, 0, uint32_t(parameters.size()), parameters.data());
    call.dispatch(commands, x, y, z);
  });
}
void copy(vk::CommandBuffer commands, vk::Buffer from, vk::Buffer to, uint32_t count, const vk::BufferCopy* regions) {
  of(commands).waiting.emplace_back([=, regions = std::vector(regions, regions + count)] {
    call.copy_buffer(commands, from, to, count, regions.data());
  });
}
void fill(vk::CommandBuffer commands, vk::Buffer to, vk::DeviceSize at, vk::DeviceSize bytes, uint32_t value) {
  of(commands).waiting.emplace_back([=] { call.fill_buffer(commands, to, at, bytes, value); });
}
void barrier(vk::CommandBuffer commands, vk::Flags from, vk::Flags to, vk::Flags flags, uint32_t count,
             const vk::MemoryBarrier* barriers, uint32_t, const void*, uint32_t, const void*) {
  record(commands);
  call.pipeline_barrier(commands, from, to, flags, count, barriers, 0, nullptr, 0, nullptr);
}

vk::GetDeviceProcAddr real_function;
vk::VoidFunction device_function(vk::Device device, const char* name) {
  const vk::VoidFunction found = real_function(device, name);
#define ANNEAL_STAND_BEFORE(member, other, instead)               \
  if (std::strcmp(name, other) == 0) {                            \
    call.member = reinterpret_cast<decltype(call.member)>(found); \
    return reinterpret_cast<vk::VoidFunction>(&instead);          \
  }
  ANNEAL_STAND_BEFORE(begin_commands, "vkBeginCommandBuffer", begin)
  ANNEAL_STAND_BEFORE(end_commands, "vkEndCommandBuffer", end)
  ANNEAL_STAND_BEFORE(bind_pipeline, "vkCmdBindPipeline", bind)
  ANNEAL_STAND_BEFORE(push_constants, "vkCmdPushConstants", push)
  ANNEAL_STAND_BEFORE(dispatch, "vkCmdDispatch", dispatch)
  ANNEAL_STAND_BEFORE(copy_buffer, "vkCmdCopyBuffer", copy)
  ANNEAL_STAND_BEFORE(fill_buffer, "vkCmdFillBuffer", fill)
  ANNEAL_STAND_BEFORE(pipeline_barrier, "vkCmdPipelineBarrier", barrier)
#undef ANNEAL_STAND_BEFORE
  return found;
}

}  // namespace

extern "C" vk::VoidFunction vkGetInstanceProcAddr(vk::Instance instance, const char* name) {
  static const auto find = reinterpret_cast<vk::GetInstanceProcAddr>(
      dlsym(dlopen(std::getenv("REAL_VULKAN"), RTLD_NOW), "vkGetInstanceProcAddr"));
  const vk::VoidFunction found = find(instance, name);
  if (std::strcmp(name, "vkGetDeviceProcAddr") != 0) return found;
  real_function = reinterpret_cast<vk::GetDeviceProcAddr>(found);
  return reinterpret_cast<vk::VoidFunction>(&device_function);
}
