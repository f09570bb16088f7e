// The output head over trained entries: log-probabilities, entropies and their gradients, block by block of rows.
#pragma once
#include "back_products.h"

namespace anneal {

// A prediction: the hidden state of row `hidden` of the batch, and the token that came.
struct Entry { int hidden, target; };

struct HeadMemory {
  struct Block {
    RowStore normed, residual;   // final norm; d logprob / d logits
    MatrixStore logits;
  };
  std::vector<Block> blocks;
  bool by_rows = false;
  int block_rows = 0;
  Buffer transposed;             // panels of the head transposed, by_rows only
  TokenBlocks left, right;       // gradient of logits, normed hidden states
  int window_blocks = 0;

  void configure(const Model&, int entries, int workers, bool gradient, bool weight_gradient);
};

// logprobs, entropies [entries]; units [entries][hidden] (or none): d logprob / d normed hidden state.
void head_forward(Team&, const Model&, const Matrix& x, const std::vector<Entry>&, float* logprobs, float* entropies, const Matrix& units,
                  std::vector<WorkerScratch>&, HeadMemory&);

// out[vocab][hidden] += sum over entries of d_logprob x d logprob / d head.
void head_weight_gradient(Team&, const Model&, const Matrix& x, const std::vector<Entry>&, const float* d_logprobs, const Matrix& out,
                          std::vector<WorkerScratch>&, HeadMemory&);

}  // namespace anneal
