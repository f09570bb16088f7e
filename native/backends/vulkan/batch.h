// What a pass computes over: rows of tokens and the sequences they belong to, on the host and then where shaders read
// it.
#pragma once
#include <span>

#include "adapter.h"
#include "delta_plan.h"
#include "fast_attention.h"
#include "recordings.h"

namespace anneal::vulkan {

// A slot of a page that a token's key and value go to.
struct Slot {
  int32_t page, slot;
};

struct Batch {
  int rows = 0;
  std::vector<int32_t> tokens, positions;  // [rows]
  std::vector<std::vector<Slot>> copies;   // further slots of a row; empty: of none
  std::vector<Sequence> sequences;
  std::vector<const AdapterVersion*> adapters;  // [rows], or empty: none
  std::vector<int32_t> logit_rows;              // whose logits are wanted

  void clear();
  void add(const int32_t* tokens, int count, int position, const int32_t* blocks, const AdapterVersion* adapter,
           int recurrent = -1, int parent = -1);
  int last_position() const;
  int longest() const;  // rows of a sequence, the most
};

// Tokens that a convolution reads before its own, the most of all layers.
int lead_of(const ModelSpec&);

// Query rows that a workgroup of attention has, as shaders/queries.glsl has them.
struct QueryTile {
  int32_t row, tokens, position, head, heads, table;
};

// A batch in memory that a GPU reads: addresses.
class DeviceBatch {
 public:
  // Puts it together, and plans the memory that it takes; write() once that is there.
  void plan(MemoryPlan&, GpuModel&, const Batch&);
  void write();

  // What commands over it contain of it.
  void add_key(const GpuModel&, RecordingKey&) const;

  int rows = 0;
  uint64_t tokens = 0, slots = 0, tables = 0, adapters = 0, logit_rows = 0;
  int rank = 0;                 // the highest of the adapters
  std::vector<uint64_t> turns;  // [rope]
  DeltaLists delta;             // of a recurrent model
  int states = 0;               // that its scans keep on their way
  struct QueryTiles {
    uint64_t at = 0;
    int count = 0, rows = 0;  // tiles, and query rows of one at most
    int tokens = 1;           // of a tile, the most
    int segments = 1;         // of the positions up to its last token, the most
    bool empty() const { return count == 0; }
  };
  struct Queries {
    int group;            // query heads to a key-value head
    QueryTiles tiles[2];  // of sequences with few queries each, and of the others
  };
  std::vector<Queries> queries;
  const Queries& queries_of(int group) const {
    return *std::find_if(queries.begin(), queries.end(), [&](const Queries& q) { return q.group == group; });
  }
  // Workgroups that the segments of a tile have: 1, or one each where tiles are few, or loops end.
  static int split(const GpuModel&, const QueryTiles&, const AttentionSpec&);
  // Where these wait to be merged, and bytes of those of some tiles.
  uint64_t segments = 0;
  static int64_t waiting_bytes(const GpuModel&, const QueryTiles&, const AttentionSpec&);
  // Of attention on cooperative matrices.
  struct MatrixQueries {
    int group, kv_heads, head_dim;
    uint64_t tiles;
    int count, rows;    // tiles, and query rows of one at most
    int across;         // subgroups that have rows together
    int waiting_units;  // of the keys that a tile sees, each of which has a workgroup of its own; 0: a workgroup has
                        // all
    bool of(const AttentionSpec& a) const {
      return group == a.group() && kv_heads == a.kv_heads && head_dim == a.head_dim;
    }
  };
  std::vector<MatrixQueries> matrix_queries;
  const MatrixQueries& matrix_queries_of(const AttentionSpec& a) const {
    return *std::find_if(matrix_queries.begin(), matrix_queries.end(), [&](const MatrixQueries& q) { return q.of(a); });
  }
  // Whether a row's adapter adapts a projection.
  bool adapts(int layer, int p) const {
    return std::any_of(versions_.begin(), versions_.end(),
                       [&](const AdapterVersion* version) { return version->adapts(layer, p); });
  }

 private:
  MatrixQueries plan_matrices(const GpuModel&, const Batch&, const AttentionSpec&, const std::vector<int32_t>& table_of,
                              std::vector<QueryTile>& tiles) const;
  static int64_t waiting_bytes(const MatrixQueries&);

  std::vector<char> bytes_;  // of memory_
  bool is_adapted_ = false;
  Memory memory_, segments_;
  std::vector<const AdapterVersion*> versions_;
};

}  // namespace anneal::vulkan
