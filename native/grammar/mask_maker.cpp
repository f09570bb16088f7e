#include "mask_maker.h"

#include <algorithm>
#include <utility>

namespace anneal::grammar {

namespace {

constexpr size_t kMostCalls = 8;          // of a state that is looked at by the rules it calls
constexpr uint64_t kMaxOnlyNodes = 4096;  // that are looked at to see whether there is only one token

void permit(Mask& mask, int32_t token) { mask[size_t(token) / 32] |= 1u << (token % 32); }

// The bytes that may follow.
Bytes live(const Configurations::Row& row) {
  Bytes bytes;
  for (size_t byte = 0; byte < 256; ++byte) bytes[byte] = row[byte] != Configurations::kDead;
  return bytes;
}

}  // namespace

std::shared_ptr<const Mask> MaskMaker::mask(uint32_t configuration, Turn& turn) {
  if (configuration < masks_.size() && masks_[configuration]) return masks_[configuration];
  const auto known = makings_.extract(configuration);
  auto mask = known ? known.mapped().mask : std::make_shared<Mask>(vocabulary_.words(), 0);
  Made work = known ? std::move(known.mapped().work) : make(configuration, *mask);
  std::coroutine_handle<> at = known ? known.mapped().at : work.handle();
  if (!pauses_.run(work, at, turn)) {
    makings_.emplace(configuration, Making{std::move(mask), std::move(work), at});
    return nullptr;
  }
  work.result();
  // Making it met further configurations.
  if (masks_.size() < configurations_.size()) masks_.resize(configurations_.size());
  masks_[configuration] = mask;
  bytes_ += mask->size() * 4 + 64;
  return mask;
}

MaskMaker::Made MaskMaker::make(uint32_t configuration, Mask& mask) {
  if (configurations_.complete(configuration))
    for (int32_t token : vocabulary_.end()) permit(mask, token);
  for (int32_t token : configurations_.tokens(configuration)) permit(mask, token);
  const bool broad = is_broad(configuration);
  const auto slice = broad ? slice_of(configuration) : std::nullopt;
  if (slice)
    for (size_t i = 0; i < mask.size(); ++i) mask[i] |= (*slice->tokens)[i];
  Walks walks{slice ? &*slice : nullptr, std::vector<uint32_t>(size_t(vocabulary_.longest()) + 1)};
  if (!broad || !co_await make_by_parts(configuration, mask, walks)) {
    const auto& row = configurations_.after(configuration);
    for (int byte = 0; byte < 256; ++byte)
      if (auto tree = subtree(byte, row[size_t(byte)]))
        while (!permit_all(*tree, walks, mask)) co_await pauses_.pause();
  }
  if (network_.has_marks()) {
    UniqueItems none;
    UniqueRestriction restriction(vocabulary_, configurations_, configuration);
    while (!restriction.go_on(none, mask, pauses_.turn())) co_await pauses_.pause();
  }
  co_return true;
}

// Whether so much may come first that a plain walk is slow.
bool MaskMaker::is_broad(uint32_t configuration) {
  const auto& row = configurations_.after(configuration);
  uint64_t below = 0;
  int bytes = 0;
  for (int byte = 0; byte < 256; ++byte)
    if (const auto tree = subtree(byte, row[size_t(byte)])) below += tree->past - tree->at, ++bytes;
  return below > limits_.walk_nodes && bytes > limits_.walk_bytes;
}

// What items permit, one after the other. False: the whole configuration is better walked.
MaskMaker::Made MaskMaker::make_by_parts(uint32_t configuration, Mask& mask, Walks& walks) {
  for (auto& [state, frame] : configurations_.items(configuration))
    if (state > Network::kExit && !co_await add_item(state, frame, mask, walks)) co_return false;
  co_return true;
}

std::optional<MaskMaker::Subtree> MaskMaker::subtree(int first, uint32_t configuration) const {
  const uint32_t child = vocabulary_.first_child(uint8_t(first));
  if (child == 0 || configuration == Configurations::kDead) return std::nullopt;
  return Subtree{child, vocabulary_.nodes()[child].next, configuration};
}

// Permits its tokens; whether all of them.
bool MaskMaker::permit_all(Subtree& tree, Walks& walks, Mask& mask) {
  return go_on<true>(tree, walks, pauses_.turn(), [&](int32_t token) {
    permit(mask, token);
    return true;
  });
}

// Calls `found` with each token of the subtree that may follow, until it answers false. Whether there are no more.
template <bool kWithRows, class F> bool MaskMaker::go_on(Subtree& tree, Walks& walks, Turn& turn, F&& found) {
  const auto& nodes = vocabulary_.nodes();
  const auto& slices = vocabulary_.slices();
  auto& path = walks.path;
  const uint64_t work = configurations_.work();
  uint64_t walked = 0;
  const auto spent = [&] { return walked + (kWithRows ? configurations_.work() - work : 0); };
  const auto tokens = [&](uint32_t i) {
    for (int32_t token = nodes[i].token; token >= 0; token = vocabulary_.same_bytes(token))
      if (!found(token)) return false;
    return true;
  };
  uint32_t i = tree.at;
  bool is_wanted = true;
  if (tree.configuration != Configurations::kDead) {
    // Its first node.
    path[nodes[i].depth] = std::exchange(tree.configuration, Configurations::kDead);
    is_wanted = tokens(i++);
    ++walked;
  }
  while (i < tree.past && is_wanted) {
    const auto& node = nodes[i];
    if (++walked % 16 == 0 && int64_t(spent()) >= turn.left()) break;
    if (walks.slice && slices.covers(*walks.slice, i)) {
      i = node.next;
      continue;
    }
    const uint32_t now = configurations_.after(path[node.depth - 1u])[node.byte];
    if (now == Configurations::kDead) {
      i = node.next;
      continue;
    }
    path[node.depth] = now;
    is_wanted = tokens(i++);
  }
  tree.at = i;
  walked_ += walked;
  turn.spend(spent());
  return is_wanted && i >= tree.past;
}

int32_t MaskMaker::only(uint32_t configuration) {
  if (configuration < only_.size() && only_[configuration] != kUnknown) return only_[configuration];
  const int32_t token = find_only(configuration);
  // Looking met further configurations.
  if (only_.size() < configurations_.size()) only_.resize(configurations_.size(), kUnknown);
  return only_[configuration] = token;
}

int32_t MaskMaker::find_only(uint32_t configuration) {
  int32_t only = -1;
  const auto found = [&](int32_t token) {
    if (only >= 0 && only != token) return false;
    only = token;
    return true;
  };
  if (configurations_.complete(configuration))
    for (int32_t token : vocabulary_.end())
      if (!found(token)) return -1;
  for (int32_t token : configurations_.tokens(configuration))
    if (!found(token)) return -1;
  walks_.path.resize(size_t(vocabulary_.longest()) + 1);
  const auto& row = configurations_.after(configuration);
  const uint64_t before = walked_;
  for (int byte = 0; byte < 256; ++byte)
    if (auto tree = subtree(byte, row[size_t(byte)])) {
      // Of the nodes alone, so that the answer is the same whatever is known of them.
      Turn turn(int64_t(kMaxOnlyNodes - std::min(kMaxOnlyNodes, walked_ - before)));
      if (!go_on<false>(*tree, walks_, turn, found)) return -1;
    }
  return only;
}

// What one item permits. False: what follows its rule is so broad that walking the whole configuration is better.
MaskMaker::Made MaskMaker::add_item(int32_t state, uint32_t frame, Mask& mask, Walks& walks) {
  const uint64_t max_nodes = vocabulary_.nodes().size() / limits_.exit_share;
  if (is_called_mostly(state) && !locals_.contains(configurations_.alone(state)) &&
      co_await add_called(state, frame, mask, walks))
    co_return true;
  const Place alone{state, {}};
  if (co_await add_place(alone, frame, max_nodes, mask, walks)) co_return true;
  const auto caller = configurations_.caller(frame);
  if (!caller) co_return false;
  const Place with_caller{state, caller->returns};
  co_return co_await add_place(with_caller, caller->frame, max_nodes, mask, walks);
}

// By the rules that the state calls, which are known from other states and grammars more often than it is.
MaskMaker::Made MaskMaker::add_called(int32_t state, uint32_t frame, Mask& mask, Walks& walks) {
  for (auto& edge : network_.calls(state)) {
    const Place called{network_.rule(edge.rule).start, {}};
    const uint64_t max_nodes = vocabulary_.nodes().size() / limits_.call_share;
    if (!co_await add_place(called, configurations_.called(edge.to, frame), max_nodes, mask, walks)) co_return false;
  }
  const auto& row = configurations_.after(configurations_.one(state, frame));
  for (auto& edge : network_.edges(state))
    for (int byte = edge.lo; byte <= edge.hi; ++byte)
      if (auto tree = subtree(byte, row[size_t(byte)]))
        while (!permit_all(*tree, walks, mask)) co_await pauses_.pause();
  co_return true;
}

bool MaskMaker::is_called_mostly(int32_t state) const {
  const auto calls = network_.calls(state);
  if (calls.empty() || calls.size() > kMostCalls) return false;
  uint64_t below = 0;
  for (auto& edge : network_.edges(state))
    for (int byte = edge.lo; byte <= edge.hi; ++byte)
      if (const uint32_t child = vocabulary_.first_child(uint8_t(byte)))
        below += vocabulary_.nodes()[child].next - child;
  return below < vocabulary_.nodes().size() / limits_.call_share;
}

// False, and nothing changes: more than `max_nodes` nodes of the vocabulary would be walked behind it, or almost
// anything may follow.
MaskMaker::Made MaskMaker::add_place(const Place& place, uint32_t frame, uint64_t max_nodes, Mask& mask, Walks& walks) {
  auto part = co_await local(place, nullptr);
  if (!part->exits.empty() || part->partial) {
    const uint32_t then = configurations_.returned(frame);
    const auto& row = configurations_.after(then);
    if (part->partial) {
      const Bytes follow = live(row);
      // Where almost anything may follow, no list of exits helps.
      if (follow.count() > limits_.max_follow) co_return false;
      part = co_await local(place, &follow);
    }
    uint64_t below = 0;
    for (auto& exit : part->exits)
      if (row[exit.byte] != Configurations::kDead) below += exit.below;
    if (below > max_nodes) co_return false;
    uint32_t begin = 0;
    for (auto& exit : part->exits) {
      if (row[exit.byte] != Configurations::kDead)
        for (uint32_t i = begin; i < exit.end; ++i) {
          Subtree tree{part->nodes[i], vocabulary_.nodes()[part->nodes[i]].next, row[exit.byte]};
          while (!permit_all(tree, walks, mask)) co_await pauses_.pause();
        }
      begin = exit.end;
    }
  }
  for (size_t i = 0; i < part->bits.size(); ++i) mask[i] |= part->bits[i];
  for (int32_t token : part->tokens) permit(mask, token);
  pauses_.turn().spend((part->bits.size() + part->tokens.size()) / 8);
  co_return true;
}

Resumable<std::shared_ptr<const LocalMask>> MaskMaker::local(const Place& place, const Bytes* follow) {
  const uint32_t from = configurations_.alone(place.state, place.returns);
  if (auto known = known_local(from, follow)) co_return known;
  const auto mask = co_await new_local(place, follow, from);
  // Another mask that needs it may have come before.
  if (auto known = known_local(from, follow)) co_return known;
  bytes_ += mask->memory();
  walked_ += mask->walked;
  if (follow)
    locals_[from].partial.push_back(mask);
  else
    locals_[from].all = mask;
  co_return mask;
}

std::shared_ptr<const LocalMask> MaskMaker::known_local(uint32_t from, const Bytes* follow) const {
  const auto known = locals_.find(from);
  if (known == locals_.end()) return nullptr;
  if (!follow) return known->second.all;
  for (auto& mask : known->second.partial)
    if (mask->asked == *follow) return mask;
  return nullptr;
}

Resumable<std::shared_ptr<const LocalMask>> MaskMaker::new_local(const Place& place, const Bytes* follow,
                                                                 uint32_t from) {
  const auto make = [&](const Slice* slice) {
    return make_local_mask(vocabulary_, configurations_, pauses_, from, follow, limits_.max_exits, slice);
  };
  TextReach reach = reaches_.of(place.state);
  if (!is_wide(reach)) co_return co_await make(nullptr);
  if (reach.ends) {
    if (!follow) co_return too_many_exits();
    // Where the rule may have ended, longer texts of these characters may follow after all.
    if (reach.exact) reach.exact = !meets(reach.groups, *follow | after(place.returns));
  }
  const Slice slice = vocabulary_.slices().slice(reach.groups, reach.chars, reach.exact);
  co_return co_await make(&slice);
}

// Whether so many tokens are in its slice that it is worth one.
bool MaskMaker::is_wide(const TextReach& reach) const {
  return reach.tokens > 0 && reach.tokens >= uint64_t(vocabulary_.size()) / limits_.slice_share;
}

// What may follow in one of the states.
Bytes MaskMaker::after(std::span<const int32_t> states) {
  Bytes bytes;
  for (int32_t state : states) bytes |= live(configurations_.after(configurations_.alone(state)));
  return bytes;
}

// The largest slice whose tokens may all follow: that of one of its states, whoever called their rules.
std::optional<Slice> MaskMaker::slice_of(uint32_t configuration) {
  TextReach widest;
  for (auto& [state, frame] : configurations_.items(configuration)) {
    if (state <= Network::kExit) continue;
    if (const TextReach& reach = reaches_.of(state); reach.tokens > widest.tokens) widest = reach;
  }
  if (!is_wide(widest)) return std::nullopt;
  return vocabulary_.slices().slice(widest.groups, widest.chars, false);
}

}  // namespace anneal::grammar
