// Where a network can be after some bytes: sets of (state, stack), each set stored and numbered once.
//
// Stacks share their tails. A frame is what a rule returns to: the set of (return state, frame below) of everybody who
// called it at one place in the text, so that ambiguity multiplies nothing. Equal sets have equal numbers, and what
// follows a configuration is remembered: after a while a byte costs one look at a table, as in a finite automaton.
#pragma once
#include <array>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "network.h"
#include "span_set.h"

namespace anneal::grammar {

class Configurations {
 public:
  explicit Configurations(const Network& network);

  static constexpr uint32_t kDead = UINT32_MAX;
  using Row = std::array<uint32_t, 256>;  // the configuration after each byte, or kDead

  // Of the whole grammar, before the first byte.
  uint32_t start() const { return start_; }
  // One state alone, its rule called by somebody unknown: where the rule ends, the configuration exits(). With
  // `returns`, the rule returns to these states of another one, and where that ends, the configuration exits().
  uint32_t alone(int32_t state, std::span<const int32_t> returns = {});

  const Row& after(uint32_t configuration) {
    if (!rows_[configuration]) fill(configuration);
    return *rows_[configuration];
  }
  uint32_t after_token(uint32_t configuration, int32_t token);
  // Whether an item of an array whose items differ may end there; whether such an array was opened just before.
  bool ends_item(uint32_t configuration) const { return ends_[configuration] & kItemEnded; }
  bool opens(uint32_t configuration) const { return ends_[configuration] & kOpened; }
  // As after()[byte], where an item that ends there is equal to an earlier one.
  uint32_t after_duplicate(uint32_t configuration, uint8_t byte);
  // Tokens that may follow by their number, sorted.
  std::vector<int32_t> tokens(uint32_t configuration);
  bool complete(uint32_t configuration) const { return ends_[configuration] & 1 << Network::kDone; }
  bool exits(uint32_t configuration) const { return ends_[configuration] & 1 << Network::kExit; }

  // (state, frame), sorted. States that merely end their rule are followed into what they return to.
  struct Item {
    int32_t state;
    uint32_t frame;
  };
  std::vector<Item> items(uint32_t configuration) const;
  // After the rule of a frame has ended there.
  uint32_t returned(uint32_t frame);
  // The frame of a rule that a state of `frame` calls to go on at `to`.
  uint32_t called(int32_t to, uint32_t frame);
  // The states that a frame returns to and the frame below them, if that is one for all of them.
  struct Caller {
    std::vector<int32_t> returns;
    uint32_t frame;
  };
  std::optional<Caller> caller(uint32_t frame) const;

  // One item.
  uint32_t one(int32_t state, uint32_t frame);
  // Either of two.
  uint32_t united(uint32_t a, uint32_t b);

  // Gives configurations of others of the same network their numbers here.
  void adopt(const Configurations& from, std::span<uint32_t> configurations);

  // Steps, as a Turn counts them, that making configurations has taken so far.
  uint64_t work() const { return work_; }
  size_t size() const { return configurations_.size(); }
  size_t memory() const {
    return frames_.bytes() + configurations_.bytes() + filled_ * sizeof(Row) + rows_.capacity() * 9 +
           after_duplicates_.size() * 48;
  }

 private:
  static uint64_t pack(int32_t state, uint32_t frame) { return uint64_t(uint32_t(state)) << 32 | frame; }
  static int32_t state_of(uint64_t item) { return int32_t(item >> 32); }
  static uint32_t frame_of(uint64_t item) { return uint32_t(item); }
  uint32_t number(std::span<const uint64_t> items);
  void put(uint64_t item);
  uint32_t close(bool is_duplicate = false);
  void expand(uint32_t configuration);
  void fill(uint32_t configuration);
  uint32_t copy_frame(const Configurations& from, uint32_t frame, std::vector<uint32_t>& known);

  const Network& network_;
  SpanSet frames_, configurations_;
  std::vector<std::unique_ptr<Row>> rows_;
  static constexpr uint8_t kItemEnded = 4, kOpened = 8;
  // Of each configuration, bits kDone and kExit: whether it holds these states; and the bits above, whether such a one.
  std::vector<uint8_t> ends_;
  std::unordered_map<uint64_t, uint32_t> after_duplicates_;  // by configuration and byte
  size_t filled_ = 0;
  uint64_t work_ = 0;
  uint32_t start_, outside_, unknown_;  // frames: of the grammar, of alone()

  // Scratch.
  std::vector<uint64_t> set_, active_;  // items of a configuration being made; of one with the rules it calls
  struct Call {
    int32_t order;
    uint64_t entry;
    bool operator<(const Call& other) const { return order != other.order ? order < other.order : entry < other.entry; }
  };
  std::vector<Call> calls_;  // a heap, least first
  struct Step {
    uint8_t lo, hi;
    uint64_t to;
  };
  std::vector<Step> steps_;
};

}  // namespace anneal::grammar
