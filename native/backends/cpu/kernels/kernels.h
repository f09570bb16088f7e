// The arithmetic of the engine: one table of functions per instruction set and compute type.
//
// Every function gives the same bits on every instruction set of a family, for every row count and every split of the
// work among threads: a product is one chain of float32 sums over k per output (in the fast family of sums of 32 k);
// row reductions use 16 lanes and one fixed tree; no libm. Callers have set the floating-point mode (FloatMode) on the
// calling thread.
//
// Compute type T is float32 or bfloat16. Pointers to T are `void*`; "padded" means rounded up to a multiple of
// Kernels::k_step (1 for float32, 2 for bfloat16) with zeros in the padding.
//
// Panels: a matrix W[N][K] (N outputs, K reduction) is stored as ceil(N/16) panels. float32: [N/16][K][16];
// bfloat16: [N/16][K/2][16][2], pairs of k interleaved. Padded outputs and padded k are zero.
#pragma once
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "../../../executor/float_mode.h"
#include "../../../model/tensor_format.h"
#include "../../page.h"

namespace anneal::cpu {

enum class DType : uint8_t { f32, bf16 };
// With vnni, dotprod and i8mm, byte products of quantised weights have instructions of their own; all else is as in the
// set before. Those from amx_avx2 on are the fast family, which multiplies bfloat16 with bits of its own (see tiles.h):
// by the matrix unit, or with its bits by vectors.
enum class Isa : uint8_t {
  portable,
  neon,
  neon_dotprod,
  neon_i8mm,
  avx2,
  avxvnni,
  avx512,
  avx512vnni,
  avx512bf16,
  amx_avx2,
  amx_avx512,
  amx,
};
// The exact family, of every architecture. Of those that a machine runs the later is the faster, but for bfloat16 on
// processors that multiply its pairs slower than they widen them: see best_isa().
constexpr Isa kIsas[] = {Isa::portable, Isa::neon,   Isa::neon_dotprod, Isa::neon_i8mm, Isa::avx2,
                         Isa::avxvnni,  Isa::avx512, Isa::avx512vnni,   Isa::avx512bf16};
constexpr Isa kFastIsas[] = {Isa::amx_avx2, Isa::amx_avx512, Isa::amx};
constexpr bool is_fast(Isa isa) { return isa >= Isa::amx_avx2; }
// k that the fast family sums at once. Whoever cuts a sum, over tokens too, cuts it at a multiple.
constexpr int kFastDepth = 32;

constexpr int kLanes = 16;        // columns of a panel, lanes of a row reduction
using backends::kPage;            // token positions of a KV page = keys of an attention block
constexpr int kSegment = 1024;    // positions of an attention segment with its own (max, sum, output)
constexpr int kLogitBlock = 512;  // columns of a log-sum-exp block

// Which keys count, and how: a row sees `window` positions, its own included (0: all before it); scores become
// soft_cap * tanh(score / soft_cap) (0: as they are). Blocks below `first` are seen by no row, and are not visited.
struct AttentionSight {
  int window = 0, first = 0;
  float soft_cap = 0;
};

// Floats of a row's state of attention between two of its tasks.
inline int64_t attention_state_floats(int head_dim) {
  return 2 * (2 * kLanes + (head_dim + kLanes - 1) / kLanes * kLanes);
}

// One key-value head's queries over its cached keys. Rows may belong to several sequences where these have the keys in
// common. A row's blocks may be given to several tasks, which hand on its state: those of one segment in ascending
// order, those of several at the same time.
struct AttentionTask {
  int rows;  // query rows: (token, head of the group) pairs, at most kAttentionRows, of all `heads` together
  int head_dim;
  float scale;    // multiplies q.k
  const void* q;  // T [rows][ldq], padded head_dim
  int64_t ldq;
  const int32_t* positions;    // [rows] absolute position of each row's token; it sees keys at positions <= it
  int blocks;                  // key blocks to visit: max(positions) / kPage + 1
  const void* const* k_pages;  // [blocks] N = kPage, K = head_dim
  const void* const* v_pages;  // [blocks] N = head_dim, K = kPage
  float* out;                  // [rows][ldo]
  int64_t ldo;
  float* lse;     // [rows] log-sum-exp of scaled scores (natural), or null
  void* scratch;  // attention_scratch(head_dim) bytes, 64-byte aligned, per worker
  AttentionSight sight = {};
  int begin = 0;  // first block to visit, where others have been before
  // What other tasks saved, [rows] states each: the first stands for all blocks from the first that is seen, the others
  // for one segment after these each, in ascending order. None, and `begin` is where a segment begins: the state to
  // save is of that segment alone. A segment that is gone on with has a block left at least.
  const float* const* resume = nullptr;
  int resumed = 0;
  float* save = nullptr;  // [rows] states, written in place of out and lse
  // The block of keys and values that the thread will likely read after the task, fetched meanwhile; or null.
  const void *next_k = nullptr, *next_v = nullptr;
  // Neighbouring key-value heads, each with `rows` rows, which go through a block one after the other: memory is read
  // in longer stretches. Their queries (elements of T), pages (bytes) and lse lie as far apart as said here; out,
  // resumed and saved states are [heads][rows].
  int heads = 1;
  int64_t head_queries = 0, head_page = 0, head_lse = 0;
  // Scores that take part in the softmax of rows and have no value, of the query heads [heads][group] whose rows these
  // are by turns; or null.
  const float* sinks = nullptr;
  int group = 1;
};
constexpr int kAttentionRows = 64;

// Gradients of some query rows of one key-value head with respect to themselves and to some key blocks, with
// probabilities recomputed. All rows belong to one sequence.
struct AttentionBackwardTask {
  int rows, head_dim;  // rows: at most kAttentionBackwardRows
  float scale;
  const void* q;
  int64_t ldq;               // T [rows][ldq]
  const void* dout;          // d loss / d out
  int64_t lddo;              // T [rows][lddo]
  const float* delta;        // [rows]: sum(dout out)
  const float* lse;          // [rows]
  const int32_t* positions;  // [rows]
  int block, blocks;         // the first, and how many
  const void* const* k_pages;
  const void* const* v_pages;  // [blocks]
  float* dq;
  int64_t lddq;  // [rows][lddq], added to; of padded head_dim, as the next two
  float* const* dk;
  float* const* dv;
  int64_t lddkv;  // [blocks] x [kPage][lddkv], added to
  void* scratch;  // attention_backward_scratch(head_dim) bytes per worker
  AttentionSight sight = {};
};
constexpr int kAttentionBackwardRows = 512;

// The gated delta rule of one value head over some tokens; see delta_rule.h.
struct DeltaTask {
  int tokens, key_dim, value_dim;
  const float *q, *k;  // [tokens][ldk]
  int64_t ldk;
  const float* v;  // [tokens][ldv]
  int64_t ldv;
  const float *decay, *strength;  // of token t at t * ldg
  int64_t ldg;
  float* state;  // before the first token; becomes that after the last
  float* out;    // [tokens][ldo]
  int64_t ldo;
};
struct DeltaBackwardTask {
  int tokens, key_dim, value_dim;
  const float *q, *k;
  int64_t ldk;
  const float* v;
  int64_t ldv;
  const float *decay, *strength;
  int64_t ldg;
  const float* state;  // before the first token
  const float* dout;   // [tokens][ldo]
  int64_t ldo;
  float* dstate;                    // [key_dim][panels * 16], behind the last token; becomes that before the first
  float *dq, *dk;                   // [tokens][ldk], added to
  float* dv;                        // [tokens][ldv], overwritten
  float *d_log_decay, *d_strength;  // of token t at t * ldg, overwritten
  void* scratch;                    // delta_backward_scratch(tokens, key_dim, value_dim) bytes, 64-byte aligned
};

struct AdamWStep {
  double lr, beta1, beta2, eps, weight_decay;
  double bias1, bias2;  // 1 - beta^t
  double grad_scale;    // multiplies every gradient (clipping)
};

// How logits x become probabilities, the largest of them 1: with t = (x - shift) / divisor, e^t where t >= least and
// e^t >= floor, else 0. Those below `coarse`, a power of 2, are rounded to multiples of what it is counted in (2^-23 of
// it).
struct Probabilities {
  float shift, divisor, least, floor, coarse = 0;
};

using model::quantized_index;
using model::TensorFormat;

// Activations of a row that share a scale, as quantised weights are multiplied with them.
constexpr int kCodeGroup = 32;
struct ActivationGroup {
  int8_t codes[kCodeGroup];  // nearest to x / scale, at most 127
  float scale;               // absolute maximum / 127
  float sum;                 // of all codes, times scale
  int32_t sums[2];           // of codes, as an instruction set needs them: code_sums.h
};

// The same for weights of 16 bits.
constexpr int kWideGroup = model::quantized_format(TensorFormat::int16_64).group, kMostWideCode = 4095;
struct WideActivationGroup {
  int16_t codes[kWideGroup];  // nearest to x / scale
  float scale;                // absolute maximum / kMostWideCode
};

// Bytes of a row of k activations as groups; what a last group lacks counts as zeros.
constexpr int64_t code_row_bytes(TensorFormat format, int k) {
  return model::is_wide(format) ? (k + kWideGroup - 1) / kWideGroup * int64_t(sizeof(WideActivationGroup))
                                : (k + kCodeGroup - 1) / kCodeGroup * int64_t(sizeof(ActivationGroup));
}

// Of one format of quantised weights, see quantized_panel.h; k is a multiple of the format's block.
struct QuantizedKernels {
  // Rows [rows][lds] of T to groups, rows of which are `ld` bytes apart; any k.
  void (*quantize_rows)(const void* src, int64_t lds, int rows, int k, void* groups, int64_t ld);
  // As gemm, with groups of the activations: rows of a are lda bytes apart.
  void (*product)(const void* a, int64_t lda, int m, const void* panels, int k, int npanels, float* c, int64_t ldc,
                  bool accumulate);
  // gemm over the dequantised weights, rounded to T.
  void (*dequantized_product)(const void* a, int64_t lda, int m, const void* panels, int k, int npanels, float* c,
                              int64_t ldc, bool accumulate);
  // As transpose_panels, of the values; not of weights of 16 bits.
  void (*transpose_panels)(const void* panels, int k, int col0, int cols, int n0, int rows, void* out);
  // The same as codes, n0 a multiple of a group of these: of 8 bits, see transposed_codes.h, or of 16 where the weights
  // have these, which share the largest scale of 64 x 64.
  void (*transpose_codes)(const void* panels, int k, int col0, int cols, int n0, int rows, void* out);
  // As product, of codes of gradients by such panels over n outputs.
  void (*back_product)(const void* a, int64_t lda, int m, const void* panels, int n, int npanels, float* c, int64_t ldc,
                       bool accumulate);
  void (*embed)(const void* panels, int k, int id, float* out);
};
constexpr int kQuantizedCount = int(std::size(model::kQuantizedFormats));

constexpr int kLimits = 4;  // thresholds that sums_below tries at once

// y [rows][ldy] = f(gate) * up, n columns, of gate and up as T [rows][ld]; or as they are before rounding to T, float32
// [rows][lds], and then gate and up (or neither: null) are what is written. Backward: dgate, dup [rows][ldd] of dy
// [rows][lddy], float32, and y again, or null; all are overwritten.
struct GatedActivation {
  void (*mul)(const void* gate, const void* up, int64_t ld, int rows, int n, void* y, int64_t ldy);
  void (*round_mul)(const float* gate_sums, const float* up_sums, int64_t lds, int rows, int n, void* gate, void* up,
                    int64_t ld, void* y, int64_t ldy);
  void (*mul_backward)(const void* gate, const void* up, int64_t ld, const float* dy, int64_t lddy, int rows, int n,
                       void* dgate, void* dup, int64_t ldd, void* y, int64_t ldy);
};

// Attention over pages that hold keys and values in one way; see kv_page.h.
struct AttentionKernels {
  size_t (*page_bytes)(int head_dim);  // of one K page or one V page
  size_t (*attention_scratch)(int head_dim);
  size_t (*attention_backward_scratch)(int head_dim);
  // Writes one token's key and value (float32 [head_dim], rounded here) into slot 0..63 of a page. A page starts as
  // zeros.
  void (*kv_write)(const float* k, const float* v, int slot, int head_dim, void* k_page, void* v_page);
  void (*attention)(const AttentionTask&);
  void (*attention_backward)(const AttentionBackwardTask&);
};

struct Kernels {
  Isa isa;
  DType type;
  int elem;            // bytes of T
  int k_step;          // 1 or 2
  int product_panels;  // that many rows had best be multiplied with in one call of gemm, which may prepare rows anew

  // ---- products
  // c[m][16*panels] = (accumulate ? c : 0) + a[m][k] . W^T; a has lda >= padded k elements of T, zero padded. Any m >=
  // 0.
  void (*gemm)(const void* a, int64_t lda, int m, const void* panels, int k, int npanels, float* c, int64_t ldc,
               bool accumulate);
  // Panels of src[n][k] (row-major, ld elements of src_type), rounded to nearest even.
  void (*pack)(const void* src, DType src_type, int64_t ld, int n, int k, void* panels);
  // dst [n][ld] (float32) = W.
  void (*unpack)(const void* panels, int n, int k, float* dst, int64_t ld);
  // Panels of src^T, src[rows][cols] row-major: outputs = cols, reduction = rows.
  void (*pack_transposed)(const void* src, DType src_type, int64_t ld, int rows, int cols, void* panels);
  // From panels of W[n][k]: panels of W^T restricted to outputs col0..col0+cols (multiples of 16) and reduction
  // n0..n0+rows (multiples of 16, except that n0 + rows may be n).
  void (*transpose_panels)(const void* panels, int n, int k, int col0, int cols, int n0, int rows, void* out);
  // dst[cols][ldd] (T, zero padded to ldd) = src[rows][lds]^T.
  void (*transpose)(const void* src, DType src_type, int64_t lds, int rows, int cols, void* dst, int64_t ldd);
  // dst[rows][ldd] (T, zero padded to ldd) = src[rows][cols] * scale, rounded once.
  void (*round_rows)(const float* src, int64_t lds, int rows, int cols, float scale, void* dst, int64_t ldd);
  // dst [rows][ldd] (float32) = src [rows][lds] (T).
  void (*widen_rows)(const void* src, int64_t lds, int rows, int cols, float* dst, int64_t ldd);
  void (*embed)(const void* panels, int n, int k, int id, float* out);  // row id of W as float32
  QuantizedKernels quantized[kQuantizedCount];
  const QuantizedKernels& of(TensorFormat format) const { return quantized[quantized_index(format)]; }
  void (*bias_add)(float* c, int64_t ldc, int rows, int n, const float* bias);     // c [rows][ldc] += bias [n]
  void (*add)(float* y, const float* x, int64_t n);                                // y += x
  void (*add_scaled)(float* y, const float* x, float s, int64_t n);                // y += s * x, one fma each
  void (*column_sums)(const float* x, int64_t ldx, int rows, int n, float* sums);  // sums += rows in order

  // ---- norms, rope, activation (arithmetic in float32). T outputs are padded with zeros to a step of k where their ld
  // leaves room.
  // y [rows][ldy] (T) = weight [n] * x [rows][ldx] / root of the row's mean square.
  void (*rmsnorm)(const float* x, int64_t ldx, const float* weight, float eps, int rows, int n, void* y, int64_t ldy);
  // dx [rows][lddx] += d loss / d x of dy [rows][lddy]; dweight [n] (or null) += over rows in order.
  void (*rmsnorm_backward)(const float* x, int64_t ldx, const float* weight, float eps, const float* dy, int64_t lddy,
                           int rows, int n, float* dx, int64_t lddx, float* dweight);
  // One token's heads: optional per-head RMS norm (weight null: none), then rope with half rotation of the first
  // `rotary` elements (Hugging Face layout: element i pairs with i + rotary/2; cos, sin are [rotary/2], already times
  // the attention factor). x T [heads][head_dim] contiguous at ldx per head; y float32 [heads][head_dim]. Backward: dx
  // [heads][head_dim] is overwritten (and may be dy), dweight (or null) += over heads in order.
  void (*head_norm_rope)(const void* x, int64_t ldx, int heads, int head_dim, int rotary, const float* weight,
                         float eps, const float* cos, const float* sin, float* y);
  void (*head_norm_rope_backward)(const void* x, int64_t ldx, int heads, int head_dim, int rotary, const float* weight,
                                  float eps, const float* cos, const float* sin, const float* dy, float* dx,
                                  float* dweight);
  GatedActivation silu, gelu_tanh, clamped_swiglu, logistic;

  // ---- attention
  AttentionKernels over_exact_pages, over_int8_pages;
  const AttentionKernels& attention_over(model::KvCache pages) const {
    return pages == model::KvCache::int8 ? over_int8_pages : over_exact_pages;
  }
  // out [rows] = sum over n of a [rows][lda] b [rows][ldb]; T.
  void (*row_dots)(const void* a, int64_t lda, const void* b, int64_t ldb, int rows, int n, float* out);

  // ---- the gated delta rule, float32 but for T where said; see delta_rule.h
  void (*short_conv)(const float* x, int64_t ldx, const float* taps, int64_t ldt, int kernel, int rows, int n, float* y,
                     int64_t ldy);
  void (*short_conv_backward)(const float* x, int64_t ldx, const float* taps, int64_t ldt, int kernel, int rows, int n,
                              const float* dy, int64_t lddy, float* dx, int64_t lddx, float* dtaps);
  void (*l2_norm)(const float* x, int n, float scale, float* y);
  void (*l2_norm_backward)(const float* x, int n, float scale, const float* dy, float* dx);
  // a, b: T [heads]
  void (*delta_gates)(const void* a, const void* b, const float* rate, const float* bias, int heads, float* decay,
                      float* strength);
  void (*delta_gates_backward)(const void* a, const void* b, const float* rate, const float* bias, int heads,
                               const float* d_log_decay, const float* d_strength, float* da, float* db,
                               float* d_log_rate, float* dbias);
  void (*delta_rule)(const DeltaTask&);
  size_t (*delta_backward_scratch)(int tokens, int key_dim, int value_dim);
  void (*delta_rule_backward)(const DeltaBackwardTask&);
  // gate and y: T [n]
  void (*gated_norm)(const float* x, const void* gate, const float* weight, float eps, int n, void* y);
  void (*gated_norm_backward)(const float* x, const void* gate, const float* weight, float eps, int n, const float* dy,
                              float* dx, float* dgate, float* dweight);

  // ---- a gated short convolution; see short_convolution.h
  // a, b: T [n]
  void (*multiply)(const void* a, const void* b, int n, float* to);
  void (*multiply_backward)(const void* a, const void* b, const float* d, int n, float* da, float* db);
  // gate and y: T
  void (*gated_conv)(const float* x, int64_t ldx, const float* taps, int64_t ldt, const float* bias, int kernel,
                     int rows, int n, const void* gate, int64_t ldg, void* y, int64_t ldy);
  void (*gated_conv_backward)(const float* x, int64_t ldx, const float* taps, int64_t ldt, const float* bias,
                              int kernel, int rows, int n, const void* gate, int64_t ldg, const float* dy, int64_t lddy,
                              float* dgate, int64_t lddg, float* dx, int64_t lddx, float* dtaps, int64_t lddt,
                              float* dbias);

  // ---- logits (float32 [rows][ld], n real columns)
  float (*log_sum_exp)(const float* logits, int n);
  // Entropy in nats of softmax(logits), given their log-sum-exp.
  float (*entropy)(const float* logits, int n, float lse);
  // y (T, zero padded to ldy) = scale * (onehot(target) - softmax(logits)); the difference formed in float32 before
  // rounding. Where logits are cap * tanh(x / cap) (cap 0: they are x), y is with respect to x. Returns the entropy. y
  // may begin where the logits do, and is then written over them.
  float (*softmax_residual)(const float* logits, int n, float lse, int target, float scale, float cap, void* y,
                            int64_t ldy);
  // y (T, zero padded to ldy) = d (by_logprob * log p[target] + by_entropy * entropy) / d logits, given log-sum-exp and
  // entropy; with respect to x as above.
  void (*policy_residual)(const float* logits, int n, float lse, float entropy, int target, float by_logprob,
                          float by_entropy, float cap, void* y, int64_t ldy);
  void (*soft_cap)(float* x, int n, float cap);             // x = cap * tanh(x / cap)
  void (*scale)(const float* x, int n, float s, float* y);  // y = s * x; y may be x

  // ---- sampling from a row of n columns, in blocks of kLogitBlock: maxima [blocks][16], masses [blocks]; see
  // sampling.h
  bool (*lane_maxima)(const float* x, int n, float* maxima);
  void (*keep_permitted)(const float* x, int n, const uint32_t* bits, float* y);
  void (*probabilities)(const float* x, int n, const float* maxima, const Probabilities& how, float* y, double* masses);
  void (*sums_below)(const float* p, int n, const double* masses, const float* limits, double* sums);
  void (*drop_below)(float* p, int n, float least, double* masses);
  int (*ids_at_least)(const float* x, int n, const float* maxima, float least, int32_t* ids);
  int (*ids_between)(const float* p, int n, const double* masses, float low, float high, int32_t* ids, double* below);

  // ---- optimizer (element order fixed by the caller)
  double (*sum_squares)(const float* x, int64_t n);  // blocks of 4096 in ascending order
  void (*adamw)(float* w, const float* g, float* m, float* v, int64_t n, const AdamWStep& step);
};

// Float32 elements of a state of the gated delta rule.
inline int64_t delta_state_floats(int key_dim, int value_dim) {
  return int64_t(key_dim) * ((value_dim + kLanes - 1) / kLanes * kLanes);
}

// Null when this machine cannot run it. The fast family's float32 is the exact one's.
const Kernels* kernels(Isa isa, DType type);
// Of the exact family, the fastest at bfloat16: measured once, within a millisecond, where that is not plain.
Isa best_isa();
// Whether the operating system lets this process use the matrix unit, which is asked for here. Without it the fast
// family is no faster than the exact one.
bool has_matrix_unit();
const char* isa_name(Isa isa);

inline int round_up(int n, int to) { return (n + to - 1) / to * to; }
inline int64_t panels_of(int n) { return (n + kLanes - 1) / kLanes; }
inline size_t panel_bytes(const Kernels& k, int reduction) {
  return size_t(kLanes) * round_up(reduction, k.k_step) * k.elem;
}

using executor::FloatMode;

}  // namespace anneal::cpu
