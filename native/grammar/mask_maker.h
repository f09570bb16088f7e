// The mask of a configuration: the union, over its states, of what each state permits inside its rule and of what
// follows where the rule ends.
#pragma once
#include <memory>
#include <unordered_map>
#include <vector>

#include "configurations.h"
#include "local_mask.h"
#include "mask.h"
#include "text_reach.h"
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
        reaches_(network) {}

  // Remembered per configuration.
  std::shared_ptr<const Mask> mask(uint32_t configuration);
  // The one token that the mask would permit; -1: none, or more. Costs little where there are more: looking stops at
  // the second.
  int32_t only(uint32_t configuration);
  // Nodes of the vocabulary that were looked at so far.
  uint64_t walked() const { return walked_; }
  size_t memory() const {
    return bytes_ + reaches_.memory() + masks_.capacity() * sizeof(masks_[0]) + only_.capacity() * sizeof(only_[0]);
  }

 private:
  void make(uint32_t configuration, Mask& mask);
  void walk(uint32_t from, uint32_t past, uint32_t configuration, Mask& mask);
  template <class F> bool visit(uint32_t from, uint32_t past, uint32_t configuration, F&& found);
  int32_t find_only(uint32_t configuration);
  // A state, whoever called its rule; or with what the rule returns to, whoever called that one.
  struct Place {
    int32_t state;
    std::vector<int32_t> returns;
  };
  bool add_item(int32_t state, uint32_t frame, Mask& mask);
  bool add_called(int32_t state, uint32_t frame, Mask& mask);
  bool add_place(const Place& place, uint32_t frame, uint64_t max_nodes, Mask& mask);
  bool is_called_mostly(int32_t state) const;
  std::shared_ptr<const LocalMask> local(const Place& place, const Bytes* follow);
  std::shared_ptr<const LocalMask> new_local(const Place& place, const Bytes* follow, uint32_t from);

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
  std::vector<uint32_t> path_;  // configurations by depth, of visit()
  size_t bytes_ = 0;
  uint64_t walked_ = 0;
};

}  // namespace anneal::grammar
