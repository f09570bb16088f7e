// Moves bytes between the host and a GPU's memory, a piece at a time.
#pragma once
#include <cstring>
#include <functional>

#include "gpu.h"

namespace anneal::vulkan {

class Staging {
 public:
  static constexpr int64_t kBytes = int64_t(8) << 20;

  explicit Staging(const std::shared_ptr<Gpu>& gpu) : gpu_(gpu), commands_(gpu) {}

  void write(const Memory& to, int64_t at, const void* from, int64_t bytes) {
    for (int64_t done = 0; done < bytes; done += kBytes) {
      const int64_t count = std::min(kBytes, bytes - done);
      std::memcpy(buffer(up_, Memory::Place::upload), static_cast<const char*>(from) + done, size_t(count));
      commands_.copy(up_, 0, to, at + done, count);
      commands_.run();
    }
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
};

}  // namespace anneal::vulkan
