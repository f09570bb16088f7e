// Memory of a GPU, and what a call plans to take of it.
#pragma once
#include <memory>
#include <mutex>
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

  Place place() const { return place_; }
  int64_t capacity() const { return capacity_; }
  int64_t own_bytes() const { return counted_; }  // of the device's own memory
  // That it has so many bytes from now on, of those it was taken with.
  void fit(int64_t bytes) { bytes_ = bytes; }
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
  Place place_ = Place::device;
  int64_t bytes_ = 0, capacity_ = 0, counted_ = 0;  // counted_: of the device's own
  void* mapped_ = nullptr;
};

// Memory that calls like one another leave to the next, which drivers are slow to give and to take back. Any thread.
class SpareMemory final : public Spare {
 public:
  void give(std::vector<Memory> memories) {
    const std::lock_guard lock(mutex_);
    memories_.swap(memories);
  }
  std::vector<Memory> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(memories_, {});
  }
  int64_t bytes() const override;
  void let_go() override { take(); }

 private:
  mutable std::mutex mutex_;
  std::vector<Memory> memories_;
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
  // The same of what is left there, as far as it is hardly larger than what is asked, and with no more than `limit`
  // bytes of the device's own in all. Returns how many there are.
  int64_t take(SpareMemory&, int64_t limit);
  // What was asked for, to be left to the next call.
  std::vector<Memory> release();

 private:
  struct Wish {
    Memory* memory;
    int64_t bytes;
    Memory::Place place;
    Memory::Parts parts;
    bool met = false;
  };
  // Bytes of the device's own that wishes take.
  int64_t held() const;
  std::shared_ptr<Gpu> gpu_;
  std::string part_;
  std::vector<Wish> wishes_;
  int64_t later_ = 0;
};

}  // namespace anneal::vulkan
