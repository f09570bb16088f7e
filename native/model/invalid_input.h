// What callers give or ask for that cannot be.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>

namespace anneal::model {

// Which entry of a list, which field of that, and what is wrong.
struct InvalidInput {
  size_t entry;
  const char* field;
  int64_t element = -1;  // of the field, where it is a list
  std::string problem;
};

// What cannot be now: what stands in its way, and what to do about that.
struct Conflict : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace anneal::model
