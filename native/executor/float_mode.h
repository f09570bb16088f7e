// The floating-point mode that every thread computes in.
#pragma once

namespace anneal::executor {

// Flush-to-zero, denormals-are-zero, round to nearest, for the life of the object; restores what was there.
class FloatMode {
 public:
  FloatMode();
  ~FloatMode();
  FloatMode(const FloatMode&) = delete;
  FloatMode& operator=(const FloatMode&) = delete;

 private:
  unsigned long saved_;
};

}  // namespace anneal::executor
