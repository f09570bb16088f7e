// Sequences of 64-bit words, each stored once: equal sequences have equal numbers.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace anneal::grammar {

class SpanSet {
 public:
  SpanSet() : slots_(64, kFree) {
    ends_.reserve(slots_.size()), hashes_.reserve(slots_.size()), words_.reserve(2 * slots_.size());
    ends_.push_back(0);
  }

  size_t size() const { return ends_.size() - 1; }
  // Keeps the memory.
  void clear() {
    if (size() * 8 < slots_.size()) {
      // Few of many slots are taken.
      for (uint64_t hash : hashes_)
        for (size_t slot = hash & (slots_.size() - 1); slots_[slot] != kFree; slot = (slot + 1) & (slots_.size() - 1))
          slots_[slot] = kFree;
    } else {
      std::fill(slots_.begin(), slots_.end(), kFree);
    }
    words_.clear(), hashes_.clear(), ends_.resize(1);
  }
  size_t bytes() const {
    return words_.capacity() * 8 + ends_.capacity() * 8 + slots_.capacity() * 4 + hashes_.capacity() * 8;
  }
  // Good until the next intern().
  std::span<const uint64_t> at(uint32_t number) const {
    return {words_.data() + ends_[number], size_t(ends_[number + 1] - ends_[number])};
  }

  uint32_t intern(std::span<const uint64_t> sequence) {
    const uint64_t hash = hash_of(sequence);
    for (size_t slot = hash & (slots_.size() - 1);; slot = (slot + 1) & (slots_.size() - 1)) {
      const uint32_t number = slots_[slot];
      if (number == kFree) return add(sequence, hash, slot);
      if (hashes_[number] == hash && std::ranges::equal(at(number), sequence)) return number;
    }
  }

 private:
  static constexpr uint32_t kFree = UINT32_MAX;

  static uint64_t hash_of(std::span<const uint64_t> sequence) {
    uint64_t h = 0x9e3779b97f4a7c15ull + sequence.size();
    for (uint64_t word : sequence) {
      h = (h ^ word) * 0xff51afd7ed558ccdull;
      h ^= h >> 32;
    }
    return h;
  }

  uint32_t add(std::span<const uint64_t> sequence, uint64_t hash, size_t slot) {
    const auto number = uint32_t(size());
    words_.insert(words_.end(), sequence.begin(), sequence.end());
    ends_.push_back(words_.size());
    hashes_.push_back(hash);
    slots_[slot] = number;
    if (size() * 2 > slots_.size()) grow();
    return number;
  }

  void grow() {
    slots_.assign(slots_.size() * 2, kFree);
    for (uint32_t number = 0; number < hashes_.size(); ++number) {
      size_t slot = hashes_[number] & (slots_.size() - 1);
      while (slots_[slot] != kFree) slot = (slot + 1) & (slots_.size() - 1);
      slots_[slot] = number;
    }
  }

  std::vector<uint32_t> slots_;
  std::vector<uint64_t> words_, ends_, hashes_;
};

}  // namespace anneal::grammar
