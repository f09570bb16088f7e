#include "memory.h"

#include <algorithm>

namespace anneal::vulkan {

// Behind what is asked for of a device in software: code that Mesa 26's compiles reads a little beyond what a shader
// asks for, in invocations that have left a loop, and drops what it read.
constexpr vk::DeviceSize kSlackOfCpu = 4096;

Memory::Memory(std::shared_ptr<Gpu> gpu, int64_t bytes, Place place, Parts parts)
    : gpu_(std::move(gpu)), place_(place), bytes_(bytes), capacity_(bytes) {
  if (bytes <= 0) return;
  Gpu& g = *gpu_;
  const int64_t most = g.max_piece(parts);
  if (bytes > most) {
    bytes_ = capacity_ = 0;
    throw NoDeviceMemory(g.part_ + " in one piece", bytes, most);
  }
  try {
    const vk::BufferCreateInfo info{.size = uint64_t(bytes), .usage = kBufferUsage};
    g.check(g.call.create_buffer(g.handle, &info, nullptr, &buffer_), bytes);
    vk::MemoryRequirements needs{};
    g.call.get_buffer_requirements(g.handle, buffer_, &needs);
    if (g.facts().type == vk::kCpu) needs.size += kSlackOfCpu;
    const vk::MemoryAllocateFlagsInfo flags{.flags = vk::kAllocateDeviceAddress};
    vk::Result result = vk::kOutOfDeviceMemory;
    vk::MemoryType of{};
    for (const uint32_t type : g.memory_types_[int(place)]) {
      const vk::MemoryAllocateInfo allocate{.next = &flags, .size = needs.size, .memory_type = type};
      result = g.call.allocate_memory(g.handle, &allocate, nullptr, &memory_);
      of = g.memory_.types[type];
      // What the host writes is read from its own memory where the device's part of it is full.
      if (result != vk::kOutOfDeviceMemory || place != Place::upload) break;
    }
    g.check(result, bytes);
    g.check(g.call.bind_buffer(g.handle, buffer_, memory_, 0), bytes);
    if (of.heap == g.heap_) g.taken_ += counted_ = int64_t(needs.size);
    const vk::BufferDeviceAddressInfo asked{.buffer = buffer_};
    address_ = g.call.get_buffer_address(g.handle, &asked);
    constexpr vk::Flags host = vk::kMemoryHostVisible | vk::kMemoryHostCoherent;
    if (place != Place::device || (g.writes_straight && (of.flags & host) == host))
      g.check(g.call.map_memory(g.handle, memory_, 0, ~0ull, 0, &mapped_), bytes);
  } catch (...) {
    release();
    throw;
  }
}

Memory::~Memory() { release(); }

void Memory::release() noexcept {
  if (!gpu_) return;
  if (buffer_) gpu_->call.destroy_buffer(gpu_->handle, buffer_, nullptr);
  if (memory_) gpu_->call.free_memory(gpu_->handle, memory_, nullptr);
  gpu_->taken_ -= counted_;
  buffer_ = memory_ = 0, bytes_ = capacity_ = counted_ = 0, mapped_ = nullptr;
  gpu_.reset();
}

void Memory::swap(Memory& o) noexcept {
  std::swap(gpu_, o.gpu_), std::swap(buffer_, o.buffer_), std::swap(memory_, o.memory_);
  std::swap(address_, o.address_), std::swap(place_, o.place_), std::swap(bytes_, o.bytes_);
  std::swap(capacity_, o.capacity_), std::swap(counted_, o.counted_);
  std::swap(mapped_, o.mapped_);
}

void MemoryPlan::add(int64_t bytes, Memory::Place place) {
  if (gpu_->is_own(place)) later_ += bytes;
}

int64_t MemoryPlan::bytes() const {
  int64_t sum = later_;
  for (const Wish& wish : wishes_)
    if (gpu_->is_own(wish.place)) sum += wish.bytes - wish.memory->bytes();
  return sum;
}

void MemoryPlan::take() {
  gpu_->plan(part_, 0);
  for (const Wish& wish : wishes_)
    if (const int64_t most = gpu_->max_piece(wish.parts); wish.bytes > most)
      throw NoDeviceMemory(part_ + " in one piece", wish.bytes, most);
  gpu_->plan(part_, bytes());
  for (const Wish& wish : wishes_) {
    if (wish.met) continue;
    *wish.memory = {};
    *wish.memory = Memory(gpu_, wish.bytes, wish.place, wish.parts);
  }
}

int64_t MemoryPlan::take(SpareMemory& spare, int64_t limit) {
  constexpr int64_t kSlack = 4, kSmall = 1 << 16;  // an excess of a fourth, or of so many bytes
  std::vector<Memory> left = spare.take();
  for (Wish& wish : wishes_) {
    Memory* best = nullptr;
    for (Memory& memory : left)
      if (memory.place() == wish.place && memory.capacity() >= wish.bytes &&
          memory.capacity() <= std::max(wish.bytes + wish.bytes / kSlack, kSmall) &&
          (!best || memory.capacity() < best->capacity()))
        best = &memory;
    if (!best) continue;
    *wish.memory = std::move(*best);
    *best = {};
    wish.memory->fit(wish.bytes);
    wish.met = true;
  }
  left.clear();
  if (const int64_t more = bytes(); held() + more > limit || more > gpu_->available())
    for (Wish& wish : wishes_) {
      if (wish.met) *wish.memory = {};
      wish.met = false;
    }
  take();
  return held();
}

int64_t MemoryPlan::held() const {
  int64_t sum = 0;
  for (const Wish& wish : wishes_)
    if (gpu_->is_own(wish.place)) sum += wish.memory->capacity();
  return sum;
}

std::vector<Memory> MemoryPlan::release() {
  std::vector<Memory> all;
  for (const Wish& wish : wishes_) all.push_back(std::move(*wish.memory));
  return all;
}

int64_t SpareMemory::bytes() const {
  const std::lock_guard lock(mutex_);
  int64_t sum = 0;
  for (const Memory& memory : memories_) sum += memory.own_bytes();
  return sum;
}

}  // namespace anneal::vulkan
