// Moves bytes between the host and a GPU's memory: to it through a ring, so that the host makes the next piece while
// the last ones are copied, or straight where the host writes it as it is.
#pragma once
#include <array>
#include <cstring>
#include <functional>

#include "commands.h"

namespace anneal::vulkan {

class Staging {
 public:
  static constexpr int64_t kBytes = int64_t(8) << 20;

  explicit Staging(const std::shared_ptr<Gpu>& gpu) : gpu_(gpu), commands_(gpu) {}

  // `from` is free afterwards, but what is sent is there only after finish(); until then `to` must live.
  void send(const Memory& to, int64_t at, const void* from, int64_t bytes) {
    if (char* const mapped = to.mapped<char>()) {
      std::memcpy(mapped + at, from, size_t(bytes));
      return;
    }
    for (int64_t done = 0; done < bytes; done += kSlotBytes) {
      const int64_t count = std::min(kSlotBytes, bytes - done), begin = int64_t(next_) * kSlotBytes;
      std::unique_ptr<Commands>& slot = slots_[next_];
      next_ = (next_ + 1) % kSlots;
      if (!slot) slot = std::make_unique<Commands>(gpu_);
      slot->wait();
      std::memcpy(buffer(up_, Memory::Place::upload) + begin, static_cast<const char*>(from) + done, size_t(count));
      slot->copy(up_, begin, to, at + done, count);
      slot->submit();
    }
  }
  void finish() {
    for (const auto& slot : slots_)
      if (slot) slot->wait();
  }
  void write(const Memory& to, int64_t at, const void* from, int64_t bytes) {
    send(to, at, from, bytes);
    finish();
  }
  void read(const Memory& from, int64_t at, void* to, int64_t bytes) {
    for (int64_t done = 0; done < bytes; done += kBytes) {
      const int64_t count = std::min(kBytes, bytes - done);
      const char* const mapped = buffer(down_, Memory::Place::readback);
      commands_.copy(from, at + done, down_, 0, count);
      commands_.run();
      std::memcpy(static_cast<char*>(to) + done, mapped, size_t(count));
    }
  }
  // Of what write() needs, or read().
  void plan(MemoryPlan& plan, Memory::Place place) {
    plan.add(place == Memory::Place::upload ? up_ : down_, kBytes, place);
  }
  void zero(const Memory& memory) {
    commands_.zero(memory, 0, memory.bytes());
    commands_.run();
  }

 private:
  char* buffer(Memory& memory, Memory::Place place) {
    if (!memory) memory = Memory(gpu_, kBytes, place);
    return memory.mapped<char>();
  }
  std::shared_ptr<Gpu> gpu_;
  Commands commands_;
  Memory up_, down_;
  static constexpr size_t kSlots = 4;
  static constexpr int64_t kSlotBytes = kBytes / int64_t(kSlots);
  std::array<std::unique_ptr<Commands>, kSlots> slots_;  // which read up_: gone before it is
  size_t next_ = 0;
};

}  // namespace anneal::vulkan
