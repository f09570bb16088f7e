// What a pass computes over: rows of tokens, the sequences they belong to, and the memory the pass works in.
#pragma once
#include <memory>
#include <vector>

#include "../../model/rope.h"
#include "adapter.h"
#include "memory.h"
#include "pages.h"
#include "recurrent_states.h"
#include "weights.h"

namespace anneal::cpu {

constexpr int kDeltaInputs = kProjections - kInQkv;

// Elements of a token in a layer's rows; of all layers, the most of each.
struct Widths {
  int attended = 0;  // what attention or the delta rule puts out
  int q = 0, kv = 0, intermediate = 0, heads = 0, head_dim = 0;
  int delta_in[kDeltaInputs] = {};      // of the projections from kInQkv on
  bool gated = false;                   // what is put out is gated before its projection
  int64_t q_floats = 0, kv_floats = 0;  // of float32 heads, each padded
  bool qk_norm = false, norms_after = false;
};
Widths widths_of(const LayerSpec&);

class ActivationProbe;

struct Model {
  ModelSpec spec;
  const Kernels& kernels;
  std::unique_ptr<Weights> weights;
  ActivationProbe* probe = nullptr;  // is shown every product

  Model(const ModelSpec&, const Kernels&, std::unique_ptr<Weights>);
  int layers() const { return int(spec.layers.size()); }
  const AttentionSpec& attention(int layer) const { return spec.layers[layer].attention; }
  // Null: the layer has attention.
  const DeltaRuleSpec* delta_rule(int layer) const {
    const auto& delta = spec.layers[layer].delta_rule;
    return delta ? &*delta : nullptr;
  }
  const Widths& widest() const { return widest_; }
  const std::vector<int>& groups() const { return groups_; }  // of all layers' attention, each once
  const RopeTable& rope(int layer) const { return ropes_[rope_of_[layer]]; }
  // Makes positions 0..count-1 available.
  void reserve_positions(int count) {
    for (RopeTable& rope : ropes_) rope.reserve(count);
  }
  float residual_scale(int layer) const { return float(spec.layers[layer].residual_scale); }
  float embedding_scale() const {
    float scale = float(spec.embedding_scale);
    if (spec.embedding_rounds) round(&scale, 1);
    return scale;
  }
  // To the format, n floats.
  void round(float* x, int n) const;
  // Of q.k in a layer's attention.
  float attention_scale(int layer) const { return scales_[layer]; }
  // What a layer's attention sees from rows at `position` and later.
  AttentionSight sight(int layer, int position) const {
    const AttentionSpec& a = attention(layer);
    return {a.window, backends::unseen_blocks(a.window, position, kPage), float(a.soft_cap)};
  }
  const AttentionKernels& attention_kernels() const { return kernels.attention_over(spec.kv_cache); }
  const GatedActivation& activation(int layer) const {
    return spec.layers[layer].feed_forward.activation == Activation::silu ? kernels.silu : kernels.gelu_tanh;
  }
  // Of the projections of the largest layer, in the compute type.
  int64_t layer_bytes() const { return layer_bytes_; }
  // Groups of codes in the widest row that quantised weights are multiplied with; 0: none are.
  int code_groups() const { return code_groups_; }

 private:
  std::vector<RopeTable> ropes_;  // those that differ
  std::vector<int> rope_of_;      // [layer]
  std::vector<float> scales_;     // [layer]
  std::vector<int> groups_;
  Widths widest_;
  int64_t layer_bytes_ = 0;
  int code_groups_ = 0;
};

// Tokens that stand at consecutive positions of one sequence.
struct Sequence {
  int row0, rows, position;
  const int32_t* blocks;  // of the first group, and of group g from g * block_count on
  int block_count;
  const int32_t* blocks_of(int group) const { return blocks + int64_t(group) * block_count; }
  int recurrent = -1;  // its state in Batch::recurrent; -1: it has none beyond the pass
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
  // When all sequences have been added.
  void list_queries(const Model&);
  const Queries& queries_of(int group) const {
    return *std::find_if(queries.begin(), queries.end(), [&](const Queries& q) { return q.group == group; });
  }

 private:
  void list_shared();
  void share(int first, int count, int from, size_t depth);
};

// Rows and matrices that own their memory. Their leading dimension depends on the columns alone, so that padding stays
// zero.
struct RowStore : Rows {
  Buffer memory;
  void size(int64_t rows, int64_t cols, const Kernels& k) {
    elem = k.elem, ld = padded(cols);
    memory.reserve(size_t(rows) * ld * elem);
    data = memory.data();
  }
};
struct MatrixStore : Matrix {
  Buffer memory;
  void size(int64_t rows, int64_t cols) {
    ld = padded(cols);
    memory.reserve(size_t(rows) * ld * sizeof(float));
    data = memory.floats();
  }
};

// Codes of rows, as quantised weights are multiplied with them.
struct CodeStore {
  Buffer memory;
  ActivationGroup* data = nullptr;
  int64_t ld = 0;  // groups to a row
  void size(int64_t rows, int64_t groups) {
    ld = groups;
    memory.reserve(size_t(rows) * groups * sizeof(ActivationGroup));
    data = reinterpret_cast<ActivationGroup*>(memory.data());
  }
};

// Temporaries of a run of rows within one layer, as wide as the widest.
struct RunScratch {
  RowStore normed, branch;   // [rows][hidden]
  RowStore q, k, v;          // [rows][heads * head_dim], [rows][kv_heads * head_dim] twice
  RowStore gate, up, act;    // [rows][intermediate]
  RowStore gated;            // what the output projection is given, where that is gated [rows][attended]
  CodeStore codes;           // of whichever input is being multiplied with quantised weights
  RowStore z[kProjections];  // s A x of each adapted projection, [rows][padded rank]
  // Backward: gradients of what the names say, in their shapes, rounded for the products; d_out is of what a branch
  // adds [rows][hidden]; g: s B^T dy of each adapted projection [rows][padded rank].
  RowStore d_out, d_gate, d_up, d_q, d_k, d_v, d_qkv, g[kProjections];
  MatrixStore d_normed;
  void size(const Model&, int rows, int lora_columns);
  void size_backward(const Model&, int rows, int lora_columns);
};

// Temporaries of one worker.
struct WorkerScratch {
  Buffer tile, panel, attention, head;
  Buffer attention_backward;
  Buffer delta;  // of a key head, see delta_layer.cpp
  std::vector<const void*> k_pages, v_pages;
  std::vector<int32_t> positions;    // of gathered queries
  std::vector<const float*> states;  // of attention
  std::vector<float*> d_k, d_v;
};

// What a forward pass over one layer leaves behind. In a step all residuals are one buffer and nothing else is kept.
struct LayerActivations {
  Matrix x_in, x_mid, x_out;  // residual stream [rows][hidden]; no x_out: the layer stops before its last product
  // Before norm and rope, [rows][heads * q_stride] and [rows][kv_heads * head_dim]; no data: not kept.
  Rows q, k;
  Rows gate, up;                // [rows][intermediate]; likewise
  Rows attended, fed_forward;   // what the branches put out before their norms [rows][hidden]; likewise
  Rows delta_in[kDeltaInputs];  // what the projections from kInQkv on put out; likewise
  Rows attention;               // what attention or the delta rule put out, before gates [rows][attended], always there
  float* lse = nullptr;         // [kv_heads][rows][group], or null
};

// How a pass spreads its rows: one run of rows per worker at a time (small layers, many rows), or all workers on every
// product.
struct Workspace {
  bool by_rows = false;
  int run_rows = 0;
  std::vector<RunScratch> runs;
  std::vector<WorkerScratch> workers;
  RowStore queries;  // see queries_of
  // Of a layer that is not kept, what is read again after attention.
  RowStore gated_q, delta_in[kDeltaInputs];
  Buffer attention_states;  // [kv_heads][sharers][group], or of the parts of long sequences

  // Roped [kv_heads][rows][group][head_dim], without padding.
  Rows queries_of(const AttentionSpec& a) const { return {queries.data, a.head_dim, queries.elem}; }

  // block: by_rows runs are multiples of it (1: any). lora_columns: padded rank, or 0.
  void configure(const Model&, int rows, int workers, int block, int lora_columns);
  // After configure, where nothing of layers is kept.
  void configure_unkept(const Model&, int rows);
  // After configure, for a backward pass.
  void configure_backward(const Model&, int lora_columns);

  // f(team, run, row0, rows) for all runs of rows.
  template <class F> void each_run(Team& all, int rows, F&& f) {
    if (by_rows) {
      all.each((rows + run_rows - 1) / run_rows, [&](int64_t chunk, int worker) {
        const int row0 = int(chunk) * run_rows;
        Team one = all.one(worker);
        f(one, runs[worker], row0, std::min(run_rows, rows - row0));
      });
    } else {
      for (int row0 = 0; row0 < rows && all.ok(); row0 += run_rows)
        f(all, runs[0], row0, std::min(run_rows, rows - row0));
    }
  }
};

// Float32 elements of a worker's product tile.
constexpr int kTileRows = 128, kTilePanels = 12;
constexpr int kRunRows = 512;                                    // rows of a run that all workers share
constexpr int kBackwardColumns = 96, kBackwardReduction = 1024;  // of a worker's panel of transposed weights
static_assert(kRunRows * kBackwardColumns <= 2 * kTileRows * kTilePanels * kLanes);

}  // namespace anneal::cpu
