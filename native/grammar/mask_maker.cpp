#include "mask_maker.h"

#include <algorithm>
#include <bit>

#include "unique_masks.h"

namespace anneal::grammar {

namespace {

constexpr size_t kMostCalls = 8;  // of a state that is looked at by the rules it calls

void permit(Mask& mask, int32_t token) { mask[size_t(token) / 32] |= 1u << (token % 32); }

}  // namespace

std::shared_ptr<const Mask> MaskMaker::mask(uint32_t configuration) {
  if (configuration < masks_.size() && masks_[configuration]) return masks_[configuration];
  auto mask = std::make_shared<Mask>(vocabulary_.words(), 0);
  make(configuration, *mask);
  if (network_.has_marks()) {
    UniqueItems none;
    restrict_to_unique(vocabulary_, configurations_, configuration, none, *mask);
  }
  // Making it met further configurations.
  if (masks_.size() < configurations_.size()) masks_.resize(configurations_.size());
  masks_[configuration] = mask;
  bytes_ += mask->size() * 4 + 64;
  return mask;
}

void MaskMaker::make(uint32_t configuration, Mask& mask) {
  if (configurations_.complete(configuration))
    for (int32_t token : vocabulary_.end()) permit(mask, token);
  for (int32_t token : configurations_.tokens(configuration)) permit(mask, token);
  const auto& row = configurations_.after(configuration);
  const auto& nodes = vocabulary_.nodes();
  uint64_t below = 0;
  int bytes = 0;
  for (int byte = 0; byte < 256; ++byte)
    if (const uint32_t child = vocabulary_.first_child(uint8_t(byte));
        child && row[size_t(byte)] != Configurations::kDead) {
      below += nodes[child].next - child;
      ++bytes;
    }
  if (below > limits_.walk_nodes && bytes > limits_.walk_bytes) {
    bool whole = true;
    for (auto& [state, frame] : configurations_.items(configuration))
      if (state > Network::kExit && !add_item(state, frame, mask)) {
        whole = false;
        break;
      }
    if (whole) return;
  }
  for (int byte = 0; byte < 256; ++byte)
    if (const uint32_t child = vocabulary_.first_child(uint8_t(byte));
        child && row[size_t(byte)] != Configurations::kDead)
      walk(child, nodes[child].next, row[size_t(byte)], mask);
}

// Permits the tokens of nodes [from, past), a subtree; `configuration` is the one after its first node's byte.
void MaskMaker::walk(uint32_t from, uint32_t past, uint32_t configuration, Mask& mask) {
  visit(from, past, configuration, [&](int32_t token) {
    permit(mask, token);
    return true;
  });
}

// Calls `found` with each token of the subtree that may follow, until it answers false; whether it never did.
template <class F> bool MaskMaker::visit(uint32_t from, uint32_t past, uint32_t configuration, F&& found) {
  const auto& nodes = vocabulary_.nodes();
  path_.resize(size_t(vocabulary_.longest()) + 1);
  path_[nodes[from].depth] = configuration;
  const auto tokens = [&](uint32_t i) {
    for (int32_t token = nodes[i].token; token >= 0; token = vocabulary_.same_bytes(token))
      if (!found(token)) return false;
    return true;
  };
  if (!tokens(from)) return false;
  ++walked_;
  for (uint32_t i = from + 1; i < past;) {
    const auto& node = nodes[i];
    ++walked_;
    const uint32_t now = configurations_.after(path_[node.depth - 1u])[node.byte];
    if (now == Configurations::kDead) {
      i = node.next;
      continue;
    }
    path_[node.depth] = now;
    if (!tokens(i)) return false;
    ++i;
  }
  return true;
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
  const auto row = configurations_.after(configuration);  // a copy: the walks below make more rows
  for (int byte = 0; byte < 256; ++byte)
    if (const uint32_t child = vocabulary_.first_child(uint8_t(byte));
        child && row[size_t(byte)] != Configurations::kDead)
      if (!visit(child, vocabulary_.nodes()[child].next, row[size_t(byte)], found)) return -1;
  return only;
}

// What one item permits. False: what follows its rule is so broad that walking the whole configuration is better.
bool MaskMaker::add_item(int32_t state, uint32_t frame, Mask& mask) {
  const uint64_t max_nodes = vocabulary_.nodes().size() / limits_.exit_share;
  if (is_called_mostly(state) && !locals_.contains(configurations_.alone(state)) && add_called(state, frame, mask))
    return true;
  if (add_place({state, {}}, frame, max_nodes, mask)) return true;
  const auto caller = configurations_.caller(frame);
  return caller && add_place({state, caller->returns}, caller->frame, max_nodes, mask);
}

// By the rules that the state calls, which are known from other states and grammars more often than it is.
bool MaskMaker::add_called(int32_t state, uint32_t frame, Mask& mask) {
  for (auto& edge : network_.calls(state))
    if (!add_place({network_.rule(edge.rule).start, {}}, configurations_.called(edge.to, frame),
                   vocabulary_.nodes().size() / limits_.call_share, mask))
      return false;
  const auto row = configurations_.after(configurations_.one(state, frame));  // a copy: the walks below make more rows
  for (auto& edge : network_.edges(state))
    for (int byte = edge.lo; byte <= edge.hi; ++byte)
      if (const uint32_t child = vocabulary_.first_child(uint8_t(byte)))
        walk(child, vocabulary_.nodes()[child].next, row[size_t(byte)], mask);
  return true;
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

// False, and nothing changes: more than `most` nodes of the vocabulary would be walked behind it, or almost anything
// may follow.
bool MaskMaker::add_place(const Place& place, uint32_t frame, uint64_t max_nodes, Mask& mask) {
  auto part = local(place, nullptr);
  if (!part->exits.empty() || part->partial) {
    const uint32_t then = configurations_.returned(frame);
    const auto row = configurations_.after(then);  // a copy: the walks below make more rows
    if (part->partial) {
      Bytes follow;
      for (size_t byte = 0; byte < 256; ++byte) follow[byte] = row[byte] != Configurations::kDead;
      // Where almost anything may follow, no list of exits helps.
      if (follow.count() > limits_.max_follow) return false;
      part = local(place, &follow);
    }
    uint64_t below = 0;
    for (auto& exit : part->exits)
      if (row[exit.byte] != Configurations::kDead) below += exit.below;
    if (below > max_nodes) return false;
    uint32_t begin = 0;
    for (auto& exit : part->exits) {
      if (row[exit.byte] != Configurations::kDead)
        for (uint32_t i = begin; i < exit.end; ++i)
          walk(part->nodes[i], vocabulary_.nodes()[part->nodes[i]].next, row[exit.byte], mask);
      begin = exit.end;
    }
  }
  for (size_t i = 0; i < part->bits.size(); ++i) mask[i] |= part->bits[i];
  for (int32_t token : part->tokens) permit(mask, token);
  return true;
}

std::shared_ptr<const LocalMask> MaskMaker::local(const Place& place, const Bytes* follow) {
  const uint32_t from = configurations_.alone(place.state, place.returns);
  Known& known = locals_[from];
  if (!follow && known.all) return known.all;
  if (follow)
    for (auto& mask : known.partial)
      if (mask->asked == *follow) return mask;
  const auto mask = new_local(place, follow, from);
  bytes_ += mask->memory();
  walked_ += mask->walked;
  if (follow)
    known.partial.push_back(mask);
  else
    known.all = mask;
  return mask;
}

std::shared_ptr<const LocalMask> MaskMaker::new_local(const Place& place, const Bytes* follow, uint32_t from) {
  const auto make = [&](const Slice* slice) {
    return make_local_mask(vocabulary_, configurations_, from, follow, limits_.max_exits, slice);
  };
  const auto& slices = vocabulary_.slices();
  TextReach reach = reaches_.of(place.state);
  // Few limits, so that few slices are made.
  if (!reach.exact && reach.chars < Slices::kMaxChars) reach.chars = int(std::bit_floor(unsigned(reach.chars)));
  const uint64_t tokens = reach.groups == 0 ? 0 : slices.count(reach.groups, reach.chars);
  if (tokens == 0 || tokens < uint64_t(vocabulary_.size()) / limits_.slice_share) return make(nullptr);
  if (reach.ends) {
    if (!follow) return too_many_exits();
    if (!place.returns.empty() || meets(reach.groups, *follow)) return make(nullptr);
  }
  const Slice slice = slices.slice(reach.groups, reach.chars, reach.exact);
  return make(&slice);
}

}  // namespace anneal::grammar
