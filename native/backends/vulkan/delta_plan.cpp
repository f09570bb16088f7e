#include "delta_plan.h"

#include <algorithm>
#include <utility>

#include "../delta_stretches.h"

namespace anneal::vulkan {
namespace {

constexpr int32_t kNext = 1 << 16;  // of readers: another stretch begins

struct Planner {
  const std::span<const Sequence> sequences;
  DeltaPlan& plan;
  const int lead;
  std::vector<std::vector<int>> branches;  // [sequences] those whose parent it is, by position
  std::vector<std::vector<int>> ends;      // [sequences] of stretches, or of what comes before branches
  std::vector<int> start;                  // [sequences] the state that it begins with
  std::vector<int> saved;                  // [sequences] the first state that its scan keeps
  std::vector<std::vector<std::pair<int32_t, int32_t>>> readers;  // [rows]

  Planner(std::span<const Sequence> all, DeltaPlan& to, int most)
      : sequences(all),
        plan(to),
        lead(most),
        branches(sequences.size()),
        ends(sequences.size()),
        start(sequences.size(), -1),
        saved(sequences.size(), 0) {
    for (size_t s = 0; s < sequences.size(); s++)
      if (const int parent = sequences[s].parent; parent >= 0) branches[size_t(parent)].push_back(int(s));
    for (std::vector<int>& list : branches)
      std::stable_sort(list.begin(), list.end(),
                       [&](int i, int j) { return sequence(i).position < sequence(j).position; });
  }

  const Sequence& sequence(int i) const { return sequences[size_t(i)]; }
  // Behind how many tokens of its parent a sequence begins.
  int offset(int branch) const { return sequence(branch).position - sequence(sequence(branch).parent).position; }

  // The row that computes a position of a sequence; what it has kept of it; or -1.
  int32_t row_of(int s, int position) const {
    if (position < 0) return -1;
    const Sequence& own = sequence(s);
    if (position < own.position && own.recurrent >= 0)
      return -2 - int32_t(own.recurrent * lead + own.position - position - 1);
    while (position < sequence(s).position) {
      s = sequence(s).parent;
      if (s < 0) return -1;
    }
    return int32_t(sequence(s).row0 + position - sequence(s).position);
  }

  void rows_before() {
    for (size_t s = 0; s < sequences.size(); s++)
      for (int i = 0; i < sequences[s].rows; i++)
        for (int j = lead; j > 0; j--) plan.before.push_back(row_of(int(s), sequences[s].position + i - j));
  }

  // Sequences level by level, and levels of them.
  std::vector<std::vector<int>> by_level() const {
    std::vector<std::vector<int>> levels;
    std::vector<size_t> level(sequences.size());
    for (size_t s = 0; s < level.size(); s++) {
      level[s] = sequences[s].parent < 0 ? 0 : level[size_t(sequences[s].parent)] + 1;
      if (level[s] == levels.size()) levels.emplace_back();
      levels[level[s]].push_back(int(s));
    }
    return levels;
  }

  // Scans that keep states at the ends that are listed, where something begins.
  void scan(const std::vector<std::vector<int>>& levels) {
    for (const std::vector<int>& level : levels) {
      plan.levels.push_back({int(plan.scans.size()), int(level.size())});
      for (int s : level) {
        const Sequence& own = sequence(s);
        if (own.recurrent >= 0 && own.position > 0) start[size_t(s)] = own.recurrent;
        const int first = int(plan.saves.size() / 2);
        saved[size_t(s)] = plan.states;
        for (int end : ends[size_t(s)]) plan.saves.insert(plan.saves.end(), {end, plan.states++});
        for (int branch : branches[size_t(s)]) start[size_t(branch)] = saved[size_t(s)] + place(s, offset(branch));
        plan.scans.push_back(
            {own.row0, own.rows, start[size_t(s)], own.recurrent, first, int32_t(ends[size_t(s)].size())});
      }
    }
  }
  int place(int s, int end) const {
    return int(std::find(ends[size_t(s)].begin(), ends[size_t(s)].end(), end) - ends[size_t(s)].begin());
  }

  // A sequence and those that branch off it, from the last stretch to the first: what the convolution's inputs take.
  void list_readers(int s) {
    const Sequence& own = sequence(s);
    const std::vector<int>& own_ends = ends[size_t(s)];
    for (size_t n = own_ends.size(); n-- > 0;) {
      for (int branch : branches[size_t(s)])
        if (offset(branch) == own_ends[n]) list_readers(branch);
      const int from = n ? own_ends[n - 1] : 0;
      for (int i = from - lead; i < own_ends[n]; i++) {
        const int32_t row = row_of(s, own.position + i);
        if (row < 0) continue;
        bool first = true;
        for (int t = std::max(from, i); t <= std::min(own_ends[n] - 1, i + lead); t++, first = false)
          readers[size_t(row)].push_back({own.row0 + t, (t - i) | (first ? kNext : 0)});
      }
    }
  }

  void back(const std::vector<std::vector<int>>& levels) {
    for (size_t level = levels.size(); level-- > 0;) {
      plan.levels_back.push_back({int(plan.sequences.size()), int(levels[level].size())});
      for (int s : levels[level]) {
        const Sequence& own = sequence(s);
        const std::vector<int>& own_ends = ends[size_t(s)];
        plan.sequences.push_back({s, int32_t(plan.stretches.size()), int32_t(own_ends.size())});
        for (size_t n = own_ends.size(); n-- > 0;) {
          const int from = n ? own_ends[n - 1] : 0;
          const int32_t first = int32_t(plan.adds.size());
          for (int branch : branches[size_t(s)])
            if (offset(branch) == own_ends[n]) plan.adds.push_back(branch);
          plan.stretches.push_back({own.row0 + from, own_ends[n] - from,
                                    n ? saved[size_t(s)] + int32_t(n) - 1 : start[size_t(s)], first,
                                    int32_t(plan.adds.size()) - first});
          plan.longest = std::max(plan.longest, own_ends[n] - from);
        }
      }
    }
    size_t rows = 0;
    for (const Sequence& s : sequences) rows += size_t(s.rows);
    readers.resize(rows);
    for (size_t s = 0; s < sequences.size(); s++)
      if (sequences[s].parent < 0) list_readers(int(s));
    std::vector<int32_t> pairs;
    for (const auto& list : readers) {
      plan.readers.push_back(int32_t(pairs.size() / 2));
      for (const auto& [row, behind] : list) pairs.insert(pairs.end(), {row, behind});
    }
    plan.readers.push_back(int32_t(pairs.size() / 2));
    plan.readers.insert(plan.readers.end(), pairs.begin(), pairs.end());
  }
};

}  // namespace

int64_t delta_turns(const model::DeltaRuleSpec& d) { return 2 * int64_t(d.key_dim) + d.key_dim / 32 + 10; }

int64_t delta_turns_back(const model::DeltaRuleSpec& d) {
  const int64_t of_lanes = (d.value_dim + 15) / 16 + 1, columns = (of_lanes - 1) * 16;
  const int64_t tile = columns < 512 ? 512 / columns : 1, of_column = (columns + 127) / 128;
  return d.key_dim *
             (4 * of_column + (tile * of_column + (tile / 8 + 1) * of_lanes + tile * of_lanes + 48) / tile + 1) +
         64;
}

DeltaPlan::DeltaPlan(std::span<const Sequence> all, int lead, Way way) {
  Planner p(all, *this, lead);
  for (size_t s = 0; s < all.size(); s++) {
    const int rows = all[s].rows;
    std::vector<int> offsets;
    for (int branch : p.branches[s]) offsets.push_back(p.offset(branch));
    if (way == Way::backward) {
      p.ends[s] = backends::stretch_ends(rows, backends::backward_stretch(rows), offsets);
    } else {
      offsets.erase(std::unique(offsets.begin(), offsets.end()), offsets.end());
      p.ends[s] = offsets;
    }
  }
  p.rows_before();
  const std::vector<std::vector<int>> levels = p.by_level();
  p.scan(levels);
  if (way == Way::backward) p.back(levels);
}

}  // namespace anneal::vulkan
