// What the fast family computes otherwise than the exact one: everything that multiplies bfloat16.
#pragma once
#define ANNEAL_TILES 1
#include "attention_backward.h"
#include "quantized.h"

namespace anneal::cpu {
namespace {

template <class Pages> void put_attention(AttentionKernels& k) {
  k.attention_scratch = attention_scratch<bf16, Pages>;
  k.attention_backward_scratch = attention_backward_scratch<bf16, Pages>;
  k.attention = giving_back<attention<bf16, Pages>>;
  k.attention_backward = giving_back<attention_backward<bf16, Pages>>;
}

template <size_t... I> void put_dequantized(QuantizedKernels* k, std::index_sequence<I...>) {
  ((k[I].dequantized_product = giving_back<dequantized_product<model::kQuantizedFormats[I].format, bf16>>), ...);
}

inline void put_tiled(Kernels& k) {
  if (k.type != DType::bf16) return;
  k.gemm = giving_back<gemm<bf16>>;
  k.product_panels = kProductPanels<bf16>;
  put_attention<ExactPages<bf16>>(k.over_exact_pages);
  put_attention<CodePages<bf16>>(k.over_int8_pages);
  put_dequantized(k.quantized, std::make_index_sequence<kQuantizedCount>());
}

}  // namespace
}  // namespace anneal::cpu
