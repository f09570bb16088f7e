#include "commands.h"

#include <chrono>

namespace anneal::vulkan {
namespace {

// What a step of a few sequences takes: so long a fence is looked at, since a thread that sleeps wakes late. A device
// in software needs the processor itself.
constexpr std::chrono::milliseconds kLook{5};

void look_at(const Gpu& gpu, vk::Fence fence) {
  if (gpu.facts().type == vk::kCpu) return;
  const auto end = std::chrono::steady_clock::now() + kLook;
  while (gpu.call.get_fence_status(gpu.handle, fence) == vk::kNotReady && std::chrono::steady_clock::now() < end) {}
}

}  // namespace

// Where it throws, what has been made of it is let go of.
Commands::Commands(std::shared_ptr<Gpu> gpu, Use use) : Commands(Unmade(), std::move(gpu), use) {
  Gpu& g = *gpu_;
  const vk::CommandPoolCreateInfo pool{.family = g.family};
  g.check(g.call.create_command_pool(g.handle, &pool, nullptr, &pool_));
  const vk::CommandBufferAllocateInfo allocate{.pool = pool_, .count = 1};
  g.check(g.call.allocate_command_buffers(g.handle, &allocate, &commands_));
  const vk::FenceCreateInfo fence{};
  g.check(g.call.create_fence(g.handle, &fence, nullptr, &fence_));
}

Commands::~Commands() {
  Gpu& g = *gpu_;
  if (submitted_) g.call.wait_fences(g.handle, 1, &fence_, 1, ~0ull);
  if (fence_) g.call.destroy_fence(g.handle, fence_, nullptr);
  if (pool_) g.call.destroy_command_pool(g.handle, pool_, nullptr);
}

void Commands::begin() {
  if (open_) return;
  wait();
  Gpu& g = *gpu_;
  g.check(g.call.reset_command_pool(g.handle, pool_, 0));
  const vk::CommandBufferBeginInfo info{.flags = use_ == Use::once ? vk::kCommandBufferOneTime : 0};
  g.check(g.call.begin_commands(commands_, &info));
  open_ = true, ended_ = false;
}

void Commands::dispatch(const Gpu::Pipeline& pipeline, const void* parameters, size_t bytes, int64_t x, int64_t y,
                        int64_t z) {
  if (x == 0 || y == 0 || z == 0) return;
  begin();
  const vk::DeviceFunctions& call = gpu_->call;
  call.bind_pipeline(commands_, vk::kBindPointCompute, pipeline.handle);
  call.push_constants(commands_, gpu_->layout(), vk::kStageCompute, 0, uint32_t(bytes), parameters);
  call.dispatch(commands_, uint32_t(x), uint32_t(y), uint32_t(z));
}

void Commands::copy(const Memory& from, int64_t at, const Memory& to, int64_t to_at, int64_t bytes) {
  if (bytes == 0) return;
  begin();
  const vk::BufferCopy region{uint64_t(at), uint64_t(to_at), uint64_t(bytes)};
  gpu_->call.copy_buffer(commands_, from.buffer(), to.buffer(), 1, &region);
}

void Commands::zero(const Memory& memory, int64_t at, int64_t bytes) {
  if (bytes == 0) return;
  begin();
  gpu_->call.fill_buffer(commands_, memory.buffer(), uint64_t(at), uint64_t(bytes), 0);
}

void Commands::barrier() {
  begin();
  constexpr vk::Flags reads = vk::kAccessShaderRead | vk::kAccessTransferRead,
                      writes = vk::kAccessShaderWrite | vk::kAccessTransferWrite,
                      stages = vk::kPipelineStageCompute | vk::kPipelineStageTransfer;
  const vk::MemoryBarrier all{.source = writes, .destination = reads | writes};
  gpu_->call.pipeline_barrier(commands_, stages, stages, 0, 1, &all, 0, nullptr, 0, nullptr);
}

void Commands::end() {
  if (!open_) return;
  Gpu& g = *gpu_;
  const vk::MemoryBarrier to_host{.source = vk::kAccessShaderWrite | vk::kAccessTransferWrite,
                                  .destination = vk::kAccessHostRead};
  g.call.pipeline_barrier(commands_, vk::kPipelineStageCompute | vk::kPipelineStageTransfer, vk::kPipelineStageHost, 0,
                          1, &to_host, 0, nullptr, 0, nullptr);
  open_ = false;
  g.check(g.call.end_commands(commands_));
  ended_ = true;
}

void Commands::submit(Commands* before) {
  Gpu& g = *gpu_;
  vk::CommandBuffer buffers[2];
  uint32_t count = 0;
  for (Commands* commands : {before, this}) {
    if (!commands) continue;
    commands->end();
    if (!commands->ended_) continue;
    buffers[count++] = commands->commands_;
    if (commands->use_ == Use::once) commands->ended_ = false;
  }
  if (count == 0) return;
  const vk::SubmitInfo submit{.buffer_count = count, .buffers = buffers};
  g.check(g.call.reset_fences(g.handle, 1, &fence_));
  g.check(g.call.queue_submit(g.queue, 1, &submit, fence_));
  submitted_ = true;
}

void Commands::wait() {
  if (!submitted_) return;
  submitted_ = false;
  look_at(*gpu_, fence_);
  const vk::Result result = gpu_->call.wait_fences(gpu_->handle, 1, &fence_, 1, ~0ull);
  // What could not be waited for may still run, whatever the reason: no call can go on after it.
  gpu_->check(result < 0 ? vk::kDeviceLost : result);
}

void Commands::run(Commands* before) {
  submit(before);
  wait();
}

void Commands::discard() {
  open_ = ended_ = false;
  wait();
}

}  // namespace anneal::vulkan
