// What the allocator does with memory that has been freed.
#pragma once
#include <cstdint>

namespace anneal::executor {

// When it ends, what has been freed goes back to the system: glibc keeps it where something behind it is in use. To be
// the first member of what holds many small pieces of memory, so that it ends after them. That takes milliseconds, for
// which little is not worth it.
struct FreedMemory {
  static constexpr int64_t kWorthwhile = int64_t(16) << 20;

  int64_t bytes = 0;  // that its owner holds, or some of them

  FreedMemory() = default;
  FreedMemory(const FreedMemory&) = delete;
  FreedMemory& operator=(const FreedMemory&) = delete;
  ~FreedMemory();
};

}  // namespace anneal::executor
