// The output head over trained entries: log-probabilities, entropies and their gradients, block by block of rows.
#pragma once
#include "back_products.h"

namespace anneal::cpu {

// Logits [rows][vocab] of a tile of normed hidden states [rows][hidden], as the model's logit scale has them.
void head_tile(const Model&, const Input& normed, const Tile&, const Matrix& logits);

// A prediction: the hidden state of row `hidden` of the batch, the token that came, and what the logits are multiplied
// with.
struct Entry {
  int hidden, target;
  float inverse_temperature = 1;
};

// What a pass makes of logits besides their logprobs.
struct HeadGradients {
  bool logprob = false, entropy = false, weight = false;
};

struct HeadMemory {
  struct Block {
    RowStore normed;  // after the final norm [block_rows][hidden]
    CodeStore codes, gradient_codes;
    MatrixStore logits;  // [block_rows][vocab]
    // A gradient with respect to logits [block_rows][vocab]: of its own, or written over the logits row by row.
    Rows d_logits;
    RowStore second_gradient;
  };
  std::vector<Block> blocks;
  bool by_rows = false;
  int block_rows = 0;
  Buffer transposed;        // panels of the head transposed, by_rows only
  TokenBlocks left, right;  // gradient of logits, normed hidden states
  int window_blocks = 0;

  void configure(const Model&, int entries, int workers, HeadGradients);
};

// Gradients with respect to the normed hidden state, [entries][hidden] each, or none.
struct Units {
  Matrix logprob, entropy;
};

// x [rows][hidden], the residual stream, to logprobs, entropies [entries], and their units.
void head_forward(Team&, const Model&, const Matrix& x, const std::vector<Entry>&, float* logprobs, float* entropies,
                  const Units&, std::vector<WorkerScratch>&, HeadMemory&);

// Of a loss, by every entry's logprob and (or none: null) entropy.
struct HeadGradient {
  const float *by_logprob, *by_entropy;
};

// out[vocab][hidden] += d loss / d head.
void head_weight_gradient(Team&, const Model&, const Matrix& x, const std::vector<Entry>&, const HeadGradient&,
                          const Matrix& out, std::vector<WorkerScratch>&, HeadMemory&);

}  // namespace anneal::cpu
