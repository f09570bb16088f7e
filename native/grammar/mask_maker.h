// The mask of a configuration: the union, over its states, of what each state permits inside its rule and of what
// follows where the rule ends.
#pragma once
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "configurations.h"
#include "local_mask.h"
#include "mask.h"
#include "resumable.h"
#include "text_reach.h"
#include "unique_masks.h"
#include "vocabulary.h"

namespace anneal::grammar {

class MaskMaker {
 public:
  MaskMaker(const Vocabulary& vocabulary, const Network& network, Configurations& configurations,
            const MaskLimits& limits)
      : vocabulary_(vocabulary),
        network_(network),
        configurations_(configurations),
        limits_(limits),
        reaches_(network, vocabulary.slices()) {}

  // Remembered per configuration. Null: the turn is over before the mask is made; whoever asks again goes on with it.
  std::shared_ptr<const Mask> mask(uint32_t configuration, Turn& turn);
  // Whether one of the configuration is being made.
  bool is_making(uint32_t configuration) const { return makings_.contains(configuration); }
  // The one token that the mask would permit; -1: none, or more, or it is not seen soon. Looking stops at the second.
  int32_t only(uint32_t configuration);
  // Nodes of the vocabulary that were looked at so far.
  uint64_t walked() const { return walked_; }
  size_t memory() const {
    return bytes_ + reaches_.memory() + masks_.capacity() * sizeof(masks_[0]) + only_.capacity() * sizeof(only_[0]) +
           makings_.size() * (vocabulary_.words() * 4 + sizeof(Making));
  }

 private:
  // Of what is made in turns: whatever else is asked for in between only adds to what is known.
  using Made = Resumable<bool>;
  struct Making {
    std::shared_ptr<Mask> mask;
    Made work;
    std::coroutine_handle<> at;  // where it goes on
  };
  // Of one mask.
  struct Walks {
    const Slice* slice;          // tokens that are permitted already; null: there is none
    std::vector<uint32_t> path;  // configurations by depth
  };
  Made make(uint32_t configuration, Mask& mask);
  Made make_by_parts(uint32_t configuration, Mask& mask, Walks& walks);
  // Walks a subtree: `configuration` is the one after its first node's byte.
  struct Subtree {
    uint32_t at, past;
    uint32_t configuration;
  };
  std::optional<Subtree> subtree(int first, uint32_t configuration) const;
  bool is_broad(uint32_t configuration);
  template <bool kWithRows, class F> bool go_on(Subtree& subtree, Walks& walks, Turn& turn, F&& found);
  bool permit_all(Subtree& subtree, Walks& walks, Mask& mask);
  int32_t find_only(uint32_t configuration);
  // A state, whoever called its rule; or with what the rule returns to, whoever called that one.
  struct Place {
    int32_t state;
    std::vector<int32_t> returns;
  };
  // False, and nothing has changed: it is better done otherwise.
  Made add_item(int32_t state, uint32_t frame, Mask& mask, Walks& walks);
  Made add_called(int32_t state, uint32_t frame, Mask& mask, Walks& walks);
  Made add_place(const Place& place, uint32_t frame, uint64_t max_nodes, Mask& mask, Walks& walks);
  bool is_called_mostly(int32_t state) const;
  Resumable<std::shared_ptr<const LocalMask>> local(const Place& place, const Bytes* follow);
  bool is_wide(const TextReach& reach) const;
  Bytes after(std::span<const int32_t> states);
  std::optional<Slice> slice_of(uint32_t configuration);
  std::shared_ptr<const LocalMask> known_local(uint32_t from, const Bytes* follow) const;
  Resumable<std::shared_ptr<const LocalMask>> new_local(const Place& place, const Bytes* follow, uint32_t from);

  const Vocabulary& vocabulary_;
  const Network& network_;
  Configurations& configurations_;
  const MaskLimits limits_;
  static constexpr int32_t kUnknown = -2;
  std::vector<std::shared_ptr<const Mask>> masks_;  // by configuration, where it was asked for
  std::vector<int32_t> only_;                       // by configuration, or kUnknown
  struct Known {
    std::shared_ptr<const LocalMask> all;  // may lack exits
    std::vector<std::shared_ptr<const LocalMask>> partial;
  };
  std::unordered_map<uint32_t, Known> locals_;  // by the configuration of the place alone
  TextReaches reaches_;
  Walks walks_{nullptr, {}};  // of find_only()
  Pauses pauses_;
  std::unordered_map<uint32_t, Making> makings_;  // by configuration: masks that have paused
  size_t bytes_ = 0;
  uint64_t walked_ = 0;
};

}  // namespace anneal::grammar
