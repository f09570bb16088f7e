// The memory that a pass works in, and what it leaves behind of a layer.
#pragma once
#include <algorithm>
#include <span>
#include <vector>

#include "loaded_model.h"
#include "memory.h"

namespace anneal::cpu {

// Elements from one row to the next, where long rows lie an odd number of cache lines apart: neighbours would share few
// places of a cache otherwise, and products read and write up to 16 of them at a time.
constexpr int64_t spread(int64_t ld, int elem) {
  constexpr int64_t kLine = 64, kLong = 1024;
  return ld * elem >= kLong ? ((ld * elem + kLine - 1) / kLine | 1) * kLine / elem : ld;
}
static_assert(spread(496, 2) == 496 && spread(512, 2) == 544 && spread(560, 2) == 608 && spread(1024, 4) == 1040);

// Rows and matrices that own their memory. Their leading dimension depends on the columns alone, so that padding stays
// zero.
struct RowStore : Rows {
  Buffer memory;
  void size(int64_t rows, int64_t cols, const Kernels& k) {
    elem = k.elem, ld = is_fast(k.isa) ? spread(padded(cols), elem) : padded(cols);
    memory.reserve(size_t(rows) * ld * elem);
    data = memory.data();
  }
};
struct MatrixStore : Matrix {
  Buffer memory;
  void size(int64_t rows, int64_t cols) {
    ld = spread(padded(cols), sizeof(float));
    memory.reserve(size_t(rows) * ld * sizeof(float));
    data = memory.floats();
  }
};

// Codes of rows, as quantised weights are multiplied with them.
struct CodeStore {
  Buffer memory;
  char* data = nullptr;
  int64_t ld = 0;  // bytes of a row
  void size(int64_t rows, int64_t row_bytes) {
    ld = row_bytes;
    memory.reserve(size_t(rows * row_bytes));
    data = memory.data();
  }
  char* at(int64_t row) const { return data + row * ld; }
};

// Of a run of rows whose feed-forward is that of experts. Choice c = row * per_row + j is the j-th expert of a row, by
// ascending number; `order` has those of one expert side by side.
struct ExpertScratch {
  // Of the router [rows][experts]: logits, then probabilities; from the next panel on that of the shared expert.
  MatrixStore scores;
  std::vector<int32_t> expert;       // of each choice
  std::vector<float> weight;         // by which its output counts
  std::vector<float> d_weight;       // backward: the gradient of that
  std::vector<int32_t> order, from;  // choices by expert; [experts + 1] where each one's begin
  RowStore input;                    // of choices in order [choices][hidden]
  CodeStore codes;                   // of these, or of what is activated
  MatrixStore d_act;                 // of choices in order [choices][intermediate]
  RowStore d_scores;                 // in the shape of scores
};

// Temporaries of a run of rows within one layer, as wide as the widest.
struct RunScratch {
  RowStore normed, branch;  // [rows][hidden]
  RowStore q, k, v;         // [rows][heads * head_dim], [rows][kv_heads * head_dim] twice
  RowStore act;             // [rows][intermediate]
  RowStore gated;           // what the output projection is given, where that is gated [rows][attended]
  RowStore token_act;       // of token inputs, gated [rows][width]
  CodeStore codes;          // of whichever input is being multiplied with quantised weights
  ExpertScratch experts;
  RowStore z[kProjections];  // s A x of each adapted projection, [rows][padded rank]
  // Backward: gradients of what the names say, in their shapes, rounded for the products; d_out is of what a branch
  // adds [rows][hidden]; g: s B^T dy of each adapted projection [rows][padded rank].
  RowStore d_out, d_gate, d_up, d_q, d_k, d_v, d_qkv, d_token_gate, g[kProjections];
  MatrixStore d_normed;
  CodeStore gradient_codes;  // of the terms of a product with quantised weights
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

// Where a row stands among `rows`, or would: they are in ascending order.
inline int place_among(std::span<const int> rows, int row) {
  return int(std::lower_bound(rows.begin(), rows.end(), row) - rows.begin());
}

// What a forward pass over one layer leaves behind. In a step all residuals are one buffer and nothing else is kept.
struct LayerActivations {
  // Of the last layer, the rows whose x_out is read, in ascending order; null: all are. Then x_mid, x_out, gate, up,
  // attended, fed_forward, token_gate, token_branch, attention and the z of o, gate, up and down begin with those rows,
  // one after the other.
  const std::vector<int>* read = nullptr;
  // Where the i-th of them stands in the batch.
  int row(int i) const { return read ? (*read)[i] : i; }
  int rows_read(int rows) const { return read ? int(read->size()) : rows; }
  // Whether any of rows [from, to) is.
  bool reads(int from, int to) const { return !read || place_among(*read, from) < place_among(*read, to); }

  Matrix x_in, x_mid, x_out;  // residual stream [rows][hidden]; no x_out: the layer stops before its last product
  // Before norm and rope, [rows][heads * q_stride] and [rows][kv_heads * head_dim]; no data: not kept.
  Rows q, k, v;
  Rows gate, up;                // [rows][intermediate], of experts of each that is chosen; likewise
  Rows attended, fed_forward;   // what the branches put out before their norms [rows][hidden]; likewise
  Rows token_gate;              // [rows][width of token inputs]; likewise
  Rows token_branch;            // what is made of token inputs before its norm [rows][hidden]; likewise
  Rows delta_in[kDeltaInputs];  // what the projections from kInQkv on put out; likewise
  Rows z[kProjections];         // s A x of adapted projections [rows][padded rank]; likewise
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
  RowStore queries;       // see queries_of
  RowStore token_inputs;  // [rows][layers * width]
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
constexpr int kTileRows = 128, kTilePanels = 12, kMostTilePanels = 24;
constexpr int kTileFloats = 2 * kTileRows * kMostTilePanels * kLanes;
constexpr int kRunRows = 512;                                     // rows of a run that all workers share
constexpr int kExpertRunRows = 2048;                              // the same, where an expert has few of them
constexpr int kStayingRows = kTileRows;                           // of one that a worker has alone
constexpr int64_t kTransposedBytes = int64_t(128) << 20;          // of a layer that is transposed at once
constexpr int kBackwardColumns = 192, kBackwardReduction = 1024;  // of a worker's panel of transposed weights
static_assert(kRunRows * kBackwardColumns <= kTileFloats);

}  // namespace anneal::cpu
