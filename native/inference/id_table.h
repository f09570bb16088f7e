// What callers know by number.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <unordered_map>

namespace anneal::inference {

// Numbers are above 0. One is not given again before all others have been.
template <class T> class IdTable {
 public:
  int32_t add(T value) {
    do latest_ = latest_ == INT32_MAX ? 1 : latest_ + 1;
    while (known_.count(latest_));
    known_.emplace(latest_, std::move(value));
    return latest_;
  }
  // Null where there is none of that number.
  const T* find(int32_t number) const {
    const auto found = known_.find(number);
    return found == known_.end() ? nullptr : &found->second;
  }
  bool remove(int32_t number) { return known_.erase(number) > 0; }
  size_t size() const { return known_.size(); }
  void clear() { known_.clear(); }

 private:
  std::unordered_map<int32_t, T> known_;
  int32_t latest_ = 0;
};

}  // namespace anneal::inference
