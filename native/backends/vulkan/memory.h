// Memory of a GPU, and what a call plans to take of it.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpu.h"

namespace anneal::vulkan {

// Bytes of a GPU's memory, or of the host's that it reads or writes.
class Memory {
 public:
  using Place = vulkan::Place;
  using Parts = vulkan::Parts;

  Memory() = default;
  // Throws NoDeviceMemory.
  Memory(std::shared_ptr<Gpu>, int64_t bytes, Place = Place::device, Parts = Parts::counted);
  Memory(Memory&& o) noexcept { swap(o); }
  Memory& operator=(Memory&& o) noexcept {
    swap(o);
    return *this;
  }
  ~Memory();

  vk::Buffer buffer() const { return buffer_; }
  uint64_t address() const { return address_; }
  int64_t bytes() const { return bytes_; }
  // As the host sees it; null: it does not see all of Place::device.
  template <class T> T* mapped() const { return static_cast<T*>(mapped_); }
  explicit operator bool() const { return bytes_ > 0; }

 private:
  void swap(Memory&) noexcept;
  void release() noexcept;

  std::shared_ptr<Gpu> gpu_;
  vk::Buffer buffer_ = 0;
  vk::DeviceMemory memory_ = 0;
  uint64_t address_ = 0;
  int64_t bytes_ = 0, counted_ = 0;  // counted_: of the device's own
  void* mapped_ = nullptr;
};

// Memory that a call takes: all of it or none.
class MemoryPlan {
 public:
  MemoryPlan(std::shared_ptr<Gpu> gpu, std::string part) : gpu_(std::move(gpu)), part_(std::move(part)) {}
  // `memory`, which lives until take(), has so many bytes from then on; what it holds is lost where it has fewer.
  void add(Memory& memory, int64_t bytes, Memory::Place place = Memory::Place::device,
           Memory::Parts parts = Memory::Parts::counted) {
    if (bytes > memory.bytes()) wishes_.push_back({&memory, bytes, place, parts});
  }
  // What is taken later in the call.
  void add(int64_t bytes, Memory::Place = Memory::Place::device);
  int64_t bytes() const;  // of the device's own memory, besides what there is
  // Throws NoDeviceMemory, before any is taken where that can be known.
  void take();

 private:
  struct Wish {
    Memory* memory;
    int64_t bytes;
    Memory::Place place;
    Memory::Parts parts;
  };
  std::shared_ptr<Gpu> gpu_;
  std::string part_;
  std::vector<Wish> wishes_;
  int64_t later_ = 0;
};

}  // namespace anneal::vulkan
