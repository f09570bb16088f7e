// Which layers have pages of their own, so that those of layers with a window are free once no token can see them.
#pragma once
#include <algorithm>
#include <vector>

#include "../model/spec.h"

namespace anneal::backends {

// Layers in groups of about the same size: a page holds 64 positions in the layers of one group. A block table has a
// part for every group. Full attention first.
struct PageGroups {
  std::vector<int> windows = {0};  // of each group: positions that its layers see, itself included; 0: all
  std::vector<int> of_layer;       // [layer]; empty: all layers are in one

  int count() const { return int(windows.size()); }
  int of(int layer) const { return of_layer.empty() ? 0 : of_layer[size_t(layer)]; }
};

// As many layers to a group as there are with, or without, a window, whichever are fewer: then little of a page is
// left over.
inline PageGroups page_groups(const model::ModelSpec& m) {
  std::vector<int> kinds[2];  // layers that see all, those that see a window
  int window = 0;
  for (int l = 0; l < int(m.layers.size()); l++) {
    const int own = m.layers[size_t(l)].attention.window;
    if (m.keys_layer(l) != l) continue;
    kinds[own > 0].push_back(l);
    window = std::max(window, own);
  }
  PageGroups groups;
  if (kinds[1].empty()) return groups;
  if (kinds[0].empty()) return {{window}, {}};
  constexpr int kMaxGroups = 8;  // of a kind
  const int larger = int(std::max(kinds[0].size(), kinds[1].size()));
  const int most = std::max(int(std::min(kinds[0].size(), kinds[1].size())), (larger + kMaxGroups - 1) / kMaxGroups);
  groups.windows.clear();
  groups.of_layer.resize(m.layers.size());
  for (const std::vector<int>& layers : kinds) {
    const int size = int(layers.size()), count = (size + most - 1) / most, first = groups.count();
    for (int i = 0; i < size; i++) groups.of_layer[size_t(layers[size_t(i)])] = first + i * count / size;
    groups.windows.insert(groups.windows.end(), size_t(count), &layers == &kinds[0] ? 0 : window);
  }
  for (int l = 0; l < int(m.layers.size()); l++) groups.of_layer[size_t(l)] = groups.of_layer[size_t(m.keys_layer(l))];
  return groups;
}

// Blocks of a group's table that no token at `position` or later sees.
inline int unseen_blocks(int window, int position, int page) {
  return window > 0 ? std::max(0, position - window + 1) / page : 0;
}

}  // namespace anneal::backends
