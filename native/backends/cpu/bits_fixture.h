// A model whose promises about bits are checked, and what it is checked with.
#pragma once
#include "decoder_fixture.h"

inline std::vector<int32_t> some_tokens(int count, int vocab, uint64_t seed) {
  std::vector<int32_t> out(count);
  for (int i = 0; i < count; i++) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    out[i] = int32_t((seed >> 33) % uint64_t(vocab));
  }
  return out;
}

struct BitsCase {
  std::string name, folder;
  Arrays weights;
  SavedAdapter saved;
  TensorFormat type;
  TestPool& one;
  TestPool& two;
  KvCache kv_cache = KvCache::exact;
  // The family's, and the best of them.
  std::span<const Isa> isas = kIsas;
  Isa best = best_isa();

  DType dtype() const { return type == TensorFormat::f32 ? DType::f32 : DType::bf16; }
  Loaded load(Isa isa) { return Loaded(folder, weights, type, isa, one, 4096, kv_cache); }
};

// Of training: gradients are a function of the rows alone, however they are computed.
void check_gradients(const BitsCase&, const Sequences& rows);
// The same, and that of rows that share what they begin with, or are trained in part.
void check_training(const BitsCase&, const Sequences& rows);
// Of training that is given up on its way.
void check_aborted_training(const BitsCase&, const Sequences& rows);
