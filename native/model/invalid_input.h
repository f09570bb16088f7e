// What a caller gave that cannot be: which entry of its list, which field of that, and what is wrong.
#pragma once
#include <cstdint>
#include <string>

namespace anneal::model {

struct InvalidInput {
  size_t entry;
  const char* field;
  int64_t element = -1;  // of the field, where it is a list
  std::string problem;
};

}  // namespace anneal::model
