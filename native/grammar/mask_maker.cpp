#include "mask_maker.h"

#include <algorithm>

namespace anneal::grammar {

namespace {

constexpr size_t kMostCalls = 8;  // of a state that is looked at by the rules it calls

// What Vocabulary keeps a local mask by. With the reach of the description: a state with nothing behind it and one that
// was described no further look the same.
std::string key_of(size_t reach, const std::string& description, const Bytes* follow) {
  return char('0' + reach) + description + (follow ? follow->to_string() : "all");
}

void permit(Mask& mask, int32_t token) { mask[size_t(token) / 32] |= 1u << (token % 32); }

}  // namespace

std::shared_ptr<const Mask> MaskMaker::mask(uint32_t configuration) {
  if (configuration < masks_.size() && masks_[configuration]) return masks_[configuration];
  auto mask = std::make_shared<Mask>(vocabulary_.words(), 0);
  make(configuration, *mask);
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
  for (uint32_t i = from + 1; i < past;) {
    const auto& node = nodes[i];
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
  if (is_called_mostly(state) && !is_known(state) && add_called(state, frame, mask)) return true;
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

bool MaskMaker::is_known(int32_t state) {
  const auto& text = description(state)[0];
  return locals_.count(configurations_.alone(state)) > 0 ||
         (!text.empty() && vocabulary_.find(key_of(0, text, nullptr)));
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
  if (const auto known = locals_.find(from); known != locals_.end()) {
    if (!follow && known->second.all) return known->second.all;
    if (follow)
      for (auto& mask : known->second.partial)
        if (mask->asked == *follow) return mask;
  }
  const auto descriptions = description(place);
  const auto key = [&](size_t i) { return key_of(i, descriptions[i], follow); };
  std::shared_ptr<const LocalMask> mask;
  if (!descriptions[0].empty()) mask = vocabulary_.find(key(0));
  if (const int32_t other = mask ? -1 : neighbour(place.state); other >= 0) {
    const Place beside{other, place.returns};
    const uint32_t from_beside = configurations_.alone(other, place.returns);
    mask = make_local_mask(vocabulary_, configurations_, from, follow, limits_.max_exits,
                           Beside{from_beside, local(beside, follow)});
    bytes_ += mask->memory();
    if (!descriptions[0].empty()) vocabulary_.keep(key(0), mask, mask->memory());
  }
  if (!mask) {
    Like like;
    for (size_t i = descriptions.size(); --i > 0 && !like.mask;)
      if (!descriptions[i].empty())
        if (auto found = vocabulary_.find(key(i)); found && (found->partial == (follow != nullptr)))
          like = {found, i - 1};
    mask = make_local_mask(vocabulary_, configurations_, from, follow, limits_.max_exits, like);
    bytes_ += mask->memory();
    for (size_t i = 0; i < descriptions.size(); ++i)
      if (!descriptions[i].empty()) vocabulary_.keep(key(i), mask, i == 0 ? mask->memory() : 0);
  }
  Known& known = locals_[from];
  if (follow)
    known.partial.push_back(mask);
  else
    known.all = mask;
  return mask;
}

// A state that most bytes lead to and keep at: within text that only some names are excluded from, any text. -1: none.
int32_t MaskMaker::neighbour(int32_t state) const {
  int32_t other = -1, widest = 0, live = 0, alike = 0;
  for (auto& edge : network_.edges(state)) {
    const int32_t width = edge.hi - edge.lo + 1;
    live += width;
    if (width > widest) widest = width, other = edge.to;
  }
  if (other < 0 || other == state) return -1;
  const auto theirs = network_.edges(other);
  size_t i = 0;
  for (auto& edge : network_.edges(state)) {
    while (i < theirs.size() && theirs[i].hi < edge.lo) ++i;
    for (size_t j = i; j < theirs.size() && theirs[j].lo <= edge.hi; ++j)
      if (theirs[j].to == edge.to && edge.to == other)
        alike += std::min(edge.hi, theirs[j].hi) - std::max(edge.lo, theirs[j].lo) + 1;
  }
  return alike * 2 > live ? other : -1;
}

const std::vector<std::string>& MaskMaker::description(int32_t state) {
  const auto [it, fresh] = described_.try_emplace(state);
  auto& list = it->second;
  if (fresh) {
    list.push_back(describe(network_, state, vocabulary_.longest()));
    for (int step : Vocabulary::kSteps)
      list.push_back(step < vocabulary_.longest() ? describe(network_, state, step) : std::string());
    for (auto& text : list) bytes_ += text.size();
  }
  return list;
}

// Empty where one of its states has none.
std::vector<std::string> MaskMaker::description(const Place& place) {
  auto list = description(place.state);
  if (place.returns.empty()) return list;
  for (size_t i = 0; i < list.size(); ++i) {
    std::string whole = "returns";
    const auto add = [&](const std::string& text) {
      if (text.empty())
        whole.clear();
      else if (!whole.empty())
        whole += std::to_string(text.size()) + ":" + text;
    };
    add(list[i]);
    for (int32_t to : place.returns) add(description(to)[i]);
    list[i] = std::move(whole);
  }
  return list;
}

}  // namespace anneal::grammar
