// What the fast family computes otherwise than the exact one: everything that multiplies bfloat16.
#pragma once
#define ANNEAL_TILES 1
#include "attention_backward.h"
#include "quantized.h"

namespace anneal::cpu {
namespace {

// f, and the tiles are given back.
template <auto f> struct Releasing;
template <class... A, void (*f)(A...)> struct Releasing<f> {
  static void call(A... arguments) {
    TilesInUse tiles;
    f(arguments...);
  }
};

template <class Pages> void put_attention(AttentionKernels& k) {
  k.attention_scratch = attention_scratch<bf16, Pages>;
  k.attention_backward_scratch = attention_backward_scratch<bf16, Pages>;
  k.attention = Releasing<attention<bf16, Pages>>::call;
  k.attention_backward = Releasing<attention_backward<bf16, Pages>>::call;
}

template <size_t... I> void put_dequantized(QuantizedKernels* k, std::index_sequence<I...>) {
  ((k[I].dequantized_product = Releasing<dequantized_product<model::kQuantizedFormats[I].format, bf16>>::call), ...);
}

inline void put_tiled(Kernels& k) {
  k.gemm = Releasing<gemm<bf16>>::call;
  put_attention<ExactPages<bf16>>(k.over_exact_pages);
  put_attention<CodePages<bf16>>(k.over_int8_pages);
  put_dequantized(k.quantized, std::make_index_sequence<kQuantizedCount>());
}

}  // namespace
}  // namespace anneal::cpu
