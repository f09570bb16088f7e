// The table of kernels of this file's instruction set.
#pragma once
#include "adamw.h"
#include "attention_backward.h"
#include "delta_rule.h"
#include "gated.h"
#include "quantized.h"
#include "rope.h"
#include "sampling.h"
#include "short_convolution.h"
#include "sums.h"

namespace anneal::cpu {
namespace {

template <class T, class Pages> constexpr AttentionKernels attention_kernels() {
  return {Pages::bytes, attention_scratch<T, Pages>, attention_backward_scratch<T, Pages>,
          Pages::write, attention<T, Pages>,         attention_backward<T, Pages>};
}

template <class T> constexpr Kernels table(Isa isa) {
  Kernels k{};
  k.isa = isa;
  k.type = kType<T>;
  k.elem = int(sizeof(T));
  k.k_step = kStep<T>;
  k.product_panels = kProductPanels<T>;
  k.gemm = gemm<T>;
  k.pack = pack<T>;
  k.unpack = unpack<T>;
  k.pack_transposed = pack_transposed<T>;
  k.transpose_panels = transpose_panels<T>;
  k.transpose = transpose<T>;
  k.round_rows = round_rows<T>;
  k.widen_rows = widen_rows<T>;
  k.embed = embed<T>;
  add_quantized<T>(k.quantized);
  k.bias_add = bias_add;
  k.add = add;
  k.add_scaled = add_scaled;
  k.column_sums = column_sums;
  k.rmsnorm = rmsnorm<T>;
  k.rmsnorm_backward = rmsnorm_backward;
  k.head_norm_rope = head_norm_rope<T>;
  k.head_norm_rope_backward = head_norm_rope_backward<T>;
  k.silu = gated_activation<T, Silu>();
  k.gelu_tanh = gated_activation<T, GeluTanh>();
  k.clamped_swiglu = gated_activation<T, ClampedSwiglu>();
  k.logistic = gated_activation<T, Logistic>();
  k.over_exact_pages = attention_kernels<T, ExactPages<T>>();
  k.over_int8_pages = attention_kernels<T, CodePages<T>>();
  k.row_dots = row_dots<T>;
  k.short_conv = short_conv;
  k.short_conv_backward = short_conv_backward;
  k.l2_norm = l2_norm;
  k.l2_norm_backward = l2_norm_backward;
  k.delta_gates = delta_gates<T>;
  k.delta_gates_backward = delta_gates_backward<T>;
  k.delta_rule = delta_rule;
  k.delta_backward_scratch = delta_backward_scratch;
  k.delta_rule_backward = delta_rule_backward;
  k.gated_norm = gated_norm<T>;
  k.gated_norm_backward = gated_norm_backward<T>;
  k.multiply = multiply<T>;
  k.multiply_backward = multiply_backward<T>;
  k.gated_conv = gated_conv<T>;
  k.gated_conv_backward = gated_conv_backward<T>;
  k.log_sum_exp = log_sum_exp;
  k.entropy = entropy;
  k.softmax_residual = softmax_residual<T>;
  k.policy_residual = policy_residual<T>;
  k.soft_cap = soft_cap;
  k.scale = scale;
  k.lane_maxima = lane_maxima;
  k.keep_permitted = keep_permitted;
  k.probabilities = probabilities;
  k.sums_below = sums_below;
  k.drop_below = drop_below;
  k.ids_at_least = ids_at_least;
  k.ids_between = ids_between;
  k.sum_squares = sum_squares;
  k.adamw = adamw;
  return k;
}

}  // namespace
}  // namespace anneal::cpu
