// What a pass computes over: rows of tokens, and the sequences and adapters that they belong to.
#pragma once
#include <algorithm>
#include <vector>

#include "adapter.h"
#include "loaded_model.h"
#include "pages.h"
#include "recurrent_states.h"

namespace anneal::cpu {

// Tokens that stand at consecutive positions of one sequence.
struct Sequence {
  int row0, rows, position;
  const int32_t* blocks;  // of the first group, and of group g from g * block_count on
  int block_count;
  const int32_t* blocks_of(int group) const { return blocks + int64_t(group) * block_count; }
  // Its state in Batch::recurrent, from which those that branch off it begin as well; -1: it has none beyond the pass.
  int recurrent = -1;
  int parent = -1;  // the sequence that computes the positions before its own; -1: it has none, or they were computed
};

// Rows that use one adapter.
struct AdapterRows {
  int row0, rows;
  const AdapterVersion* adapter;
};

// Query rows of one attention task: tokens [row, row + rows) of a sequence.
struct QueryTile {
  int sequence, row, rows;
};

// A slot of a page that a token's key and value go to.
struct Slot {
  int32_t page, slot;
};

// A batch's query rows where `group` query heads share a key-value head.
struct Queries {
  int group;
  std::vector<int32_t> positions;  // [rows * group]
  std::vector<QueryTile> tiles;
};

// Leading blocks [begin, end) that sequences of one row each have in common, sharers [first, first + count): attended
// for all of them together.
struct SharedRun {
  int begin, end, first, count;
};

struct Batch {
  int rows = 0;
  Pages* pages = nullptr;
  backends::PageGroups groups;  // of those pages
  RecurrentStates* recurrent = nullptr;
  std::vector<int32_t> tokens, positions;  // [rows]
  std::vector<Slot> slots;                 // [rows][groups of pages]
  std::vector<Slot> copies;                // further slots of a row: copies_from[row] .. copies_from[row + 1]
  std::vector<int32_t> copies_from;        // [rows + 1], or empty: no copies
  std::vector<Sequence> sequences;
  std::vector<AdapterRows> adapted;            // rows without an adapter are in none
  std::vector<Queries> queries;                // one for every group size of the model
  std::vector<int> sharers;                    // sequences that have blocks in common, those of a run side by side
  std::vector<std::vector<SharedRun>> shared;  // by depth: runs go on where those before ended
  std::vector<int> alone_from;                 // [sharers] first block that no run attends
  int last_shared = 0;                         // highest position among the sharers
  std::vector<int> sharer_of;                  // [sequences] place among the sharers of those in a run; -1: in none
  std::vector<int> roots;                      // sequences without a parent
  std::vector<std::vector<int>> branches;      // [sequences] those whose parent it is, by position

  void clear();
  // `block_count`: of each group of pages, where there are several.
  void add(const int32_t* tokens, int count, int position, const int32_t* blocks, int block_count = 0,
           int recurrent = -1, int parent = -1);
  // The row that computes a position of a sequence, at or after its first parent's first.
  int row_of(int sequence, int position) const {
    while (position < sequences[sequence].position) sequence = sequences[sequence].parent;
    return sequences[sequence].row0 + position - sequences[sequence].position;
  }
  Slot slot(int row, int layer) const { return slots[size_t(row) * groups.count() + groups.of(layer)]; }
  // The sequence that computes the first of those positions.
  const Sequence& root_of(int sequence) const {
    while (sequences[sequence].parent >= 0) sequence = sequences[sequence].parent;
    return sequences[sequence];
  }
  // When all sequences have been added.
  void list_queries(const Model&);
  const Queries& queries_of(int group) const {
    return *std::find_if(queries.begin(), queries.end(), [&](const Queries& q) { return q.group == group; });
  }

 private:
  void list_shared();
  void share(int first, int count, int from, size_t depth);
};

}  // namespace anneal::cpu
