// What a backward pass keeps in memory while it goes through the layers.
#pragma once
#include "attention_layer.h"
#include "back_products.h"
#include "parameters.h"

namespace anneal::cpu {

// The four inputs of the projections.
enum ProjectionInput : int { kInputNormed, kAttended, kPostNormed, kActivated };
inline constexpr ProjectionInput kInputOf[kProjections] = {kInputNormed, kInputNormed, kInputNormed, kAttended,
                                                           kPostNormed,  kPostNormed,  kActivated,   kInputNormed,
                                                           kInputNormed, kInputNormed, kInputNormed};

// Memory of backward passes.
struct BackwardMemory {
  Buffer transposed[kProjections];  // panels of the layer's weights transposed, when whole layers are
  bool transpose_layers = false;
  int window = 0;  // rows whose transposes are held at once
  // Inputs (right), see kInputOf; gradients of outputs (left for weights, right for B); g, z as in RunScratch (left).
  TokenBlocks x[4], dy[kProjections], g[kProjections], z[kProjections];
  Buffer d_out;  // heads of a layer in the compute type, [kv_heads][rows][group][head_dim]
  // Float32: sum(d_out out) of every head [kv_heads][rows][group]; heads [kv_heads][rows][group][head_dim], and
  // [pages][kv_heads][kPage][head_dim] twice, each padded.
  Buffer delta, d_q, d_k, d_v;
  // The last two of keys and values that several layers attend to, which stay until the first of these is reached:
  // [Model::shared_keys].
  std::vector<Buffer> shared_d_k, shared_d_v;
  RowStore d_head_gates;  // of attention's output gates [rows][q_width], or of the delta rule's [rows][value_width]
  // Of what heads of the delta rule put out [rows][value_width], and of what its convolution is given
  // [rows][conv_width].
  MatrixStore d_heads, d_qkv;
  RowStore d_b, d_a;  // [rows][value_heads]
  // Sums over the rows of each block of kBlockRows: [blocks][width].
  MatrixStore partial_final_norm, partial_norm[kNorms], partial_bias[kProjections];
  std::vector<AttentionCells> cells;  // of each entry of the batch's queries
  const AttentionCells& cells_of(const Batch& batch, int group) const {
    return cells[&batch.queries_of(group) - batch.queries.data()];
  }
  int pages = 0;

  void configure(const Model&, const Batch&, int pages, const Workspace&, const ModelGradients&, const AdapterVersion*);
};

}  // namespace anneal::cpu
