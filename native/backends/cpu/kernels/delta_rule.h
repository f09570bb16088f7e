// The gated delta rule (Yang, Kautz, Hatamizadeh 2024, "Gated Delta Networks"), one token after the other, and what
// stands around it in a layer: a short convolution, L2 norms of queries and keys, the gates, and a gated norm.
//
// Of one value head, with a state S [key_dim][value_dim]: S <- decay S; u = strength (v - S^T k); S <- S + k u^T;
// o = S^T q. A state is stored as panels of 16 values: [value_dim / 16][key_dim][16], float32, lanes beyond value_dim
// 0. Every output is a chain over key_dim in ascending order, so that no cut of the tokens changes a bit.
#pragma once
#include <type_traits>

#include "gated.h"
#include "rmsnorm.h"

namespace anneal::cpu {
namespace {

constexpr float kL2Eps = 1e-6f;

// y[t][i] = silu(sum of x[t + j][i] taps[j][i], j ascending); x has rows + kernel - 1 rows.
void short_conv(const float* x, int64_t ldx, const float* taps, int64_t ldt, int kernel, int rows, int n, float* y,
                int64_t ldy) {
  for (int t = 0; t < rows; t++)
    each16(n, [&](int64_t i, auto lanes) {
      F32x16 sum = zero();
      for (int j = 0; j < kernel; j++)
        sum = fma(load(x + (t + j) * ldx + i, lanes), load(taps + j * ldt + i, lanes), sum);
      store(y + t * ldy + i, Silu::value(sum), lanes);
    });
}

// dx and dtaps (or null) are added to.
void short_conv_backward(const float* x, int64_t ldx, const float* taps, int64_t ldt, int kernel, int rows, int n,
                         const float* dy, int64_t lddy, float* dx, int64_t lddx, float* dtaps) {
  for (int t = 0; t < rows; t++)
    each16(n, [&](int64_t i, auto lanes) {
      F32x16 sum = zero(), value, slope;
      for (int j = 0; j < kernel; j++)
        sum = fma(load(x + (t + j) * ldx + i, lanes), load(taps + j * ldt + i, lanes), sum);
      Silu::value_and_slope(sum, value, slope);
      const F32x16 d = load(dy + t * lddy + i, lanes) * slope;
      for (int j = 0; j < kernel; j++) {
        float *to = dx + (t + j) * lddx + i, *tap = dtaps + j * ldt + i;
        store(to, fma(d, load(taps + j * ldt + i, lanes), load(to, lanes)), lanes);
        if (dtaps) store(tap, fma(d, load(x + (t + j) * ldx + i, lanes), load(tap, lanes)), lanes);
      }
    });
}

ANNEAL_INLINE float inverse_length(const float* x, int n) {
  F32x16 sum = zero();
  each16(n, [&](int64_t i, auto lanes) {
    const F32x16 v = load(x + i, lanes);
    sum = fma(v, v, sum);
  });
  return 1.0f / sqrt(sum_lanes(sum) + kL2Eps);
}

// y = scale x / |x|; y may be x.
void l2_norm(const float* x, int n, float scale, float* y) {
  const F32x16 factor = all(inverse_length(x, n) * scale);
  each16(n, [&](int64_t i, auto lanes) { store(y + i, load(x + i, lanes) * factor, lanes); });
}

// dx = scale / |x| (dy - x (x.dy) / |x|^2); dx may be dy.
void l2_norm_backward(const float* x, int n, float scale, const float* dy, float* dx) {
  const float inverse = inverse_length(x, n);
  F32x16 dot = zero();
  each16(n, [&](int64_t i, auto lanes) { dot = fma(load(x + i, lanes), load(dy + i, lanes), dot); });
  const F32x16 along = all(-(sum_lanes(dot) * inverse * inverse)), factor = all(inverse * scale);
  each16(n, [&](int64_t i, auto lanes) {
    store(dx + i, fma(load(x + i, lanes), along, load(dy + i, lanes)) * factor, lanes);
  });
}

// ln(1 + e^x). What 1 + e^-|x| loses to rounding is added again: small results must not all be off to one side.
ANNEAL_INLINE F32x16 softplus(F32x16 x) {
  const F32x16 e = exp(negate(max(x, negate(x)))), y = all(1.0f) + e;
  return max(x, zero()) + (log(y) + (e - (y - all(1.0f))) / y);
}

// decay = e^(-rate softplus(a + bias)), strength = logistic(b), of a token's value heads.
template <class T>
void delta_gates(const void* a, const void* b, const float* rate, const float* bias, int heads, float* decay,
                 float* strength) {
  each16(heads, [&](int64_t i, auto lanes) {
    const F32x16 step = softplus(load((const T*)a + i, lanes) + load(bias + i, lanes));
    store(decay + i, exp(negate(load(rate + i, lanes) * step)), lanes);
    store(strength + i, Logistic::value(load((const T*)b + i, lanes)), lanes);
  });
}

// From d loss / d ln decay and d loss / d strength; da and db are overwritten, drate (by ln rate) and dbias (or null)
// are added to.
template <class T>
void delta_gates_backward(const void* a, const void* b, const float* rate, const float* bias, int heads,
                          const float* d_log_decay, const float* d_strength, float* da, float* db, float* d_log_rate,
                          float* dbias) {
  each16(heads, [&](int64_t i, auto lanes) {
    const F32x16 x = load((const T*)a + i, lanes) + load(bias + i, lanes), r = load(rate + i, lanes),
                 d = load(d_log_decay + i, lanes), by_step = negate(d * r), slope = by_step * Logistic::value(x);
    F32x16 value, by_b;
    Logistic::value_and_slope(load((const T*)b + i, lanes), value, by_b);
    store(da + i, slope, lanes);
    store(db + i, load(d_strength + i, lanes) * by_b, lanes);
    if (d_log_rate) store(d_log_rate + i, fma(by_step, softplus(x), load(d_log_rate + i, lanes)), lanes);
    if (dbias) store(dbias + i, load(dbias + i, lanes) + slope, lanes);
  });
}

// At once: their sums, and what these are made of, stay in registers, and their states in the cache.
constexpr int kDeltaPanels = 2;

ANNEAL_INLINE Part panel_lanes(int value_dim, int panel) {
  const int left = value_dim - panel * kLanes;
  return Part{left < kLanes ? left : kLanes};
}

// Where a state lies: a panel's row of 16 values.
struct StatePlace {
  float* at;
  int64_t panel_step, row_step;

  ANNEAL_INLINE float* row(int i, int panel) const { return at + panel * panel_step + i * row_step; }
};

// All tokens through `count` neighbouring panels of a state, decayed for the first at `to` and for each later one
// `step` further: one pass over them for a token, which also sums S^T k of the next. keep(token, panel, rest, u) is
// told what is written, u, and what strength makes it of. That behind the last token, not decayed, is made only where
// it is read.
template <int count, class Task, class Keep>
ANNEAL_INLINE void delta_panels(const Task& t, int panel, StatePlace to, int64_t step, Keep&& keep) {
  constexpr bool reads = std::is_same_v<Task, DeltaTask>;
  const int64_t stride = int64_t(t.key_dim) * kLanes;
  F32x16 decay = all(t.decay[0]), known[count], u[count], out[count];
#pragma GCC unroll 4
  for (int p = 0; p < count; p++) known[p] = zero();
  for (int i = 0; i < t.key_dim; i++) {
    const F32x16 key = all(t.k[i]);
#pragma GCC unroll 4
    for (int p = 0; p < count; p++) {
      const F32x16 decayed = load(t.state + (panel + p) * stride + i * kLanes) * decay;
      store(to.row(i, panel + p), decayed);
      known[p] = fma(decayed, key, known[p]);
    }
  }
  for (int token = 0; token < t.tokens; token++) {
    const float *q = t.q + token * t.ldk, *k = t.k + token * t.ldk;
#pragma GCC unroll 4
    for (int p = 0; p < count; p++) {
      const float* v = t.v + token * t.ldv + (panel + p) * kLanes;
      const F32x16 rest = load(v, panel_lanes(t.value_dim, panel + p)) - known[p];
      u[p] = rest * all(t.strength[token * t.ldg]);
      keep(token, panel + p, rest, u[p]);
      known[p] = out[p] = zero();
    }
    const auto pass = [&](auto more) {
      for (int i = 0; i < t.key_dim; i++) {
        const F32x16 key = all(k[i]), query = reads ? all(q[i]) : zero(), next = more ? all(k[t.ldk + i]) : zero();
#pragma GCC unroll 4
        for (int p = 0; p < count; p++) {
          float* at = to.row(i, panel + p);
          F32x16 s = fma(key, u[p], load(at));
          if constexpr (reads) out[p] = fma(s, query, out[p]);
          if constexpr (more) s = s * decay, known[p] = fma(s, next, known[p]);
          store(at + step * more, s);
        }
      }
    };
    if (token + 1 < t.tokens) {
      decay = all(t.decay[(token + 1) * t.ldg]);
      pass(std::true_type{});
    } else if constexpr (reads) {
      pass(std::false_type{});
    }
    if constexpr (reads) {
#pragma GCC unroll 4
      for (int p = 0; p < count; p++)
        store(t.out + token * t.ldo + (panel + p) * kLanes, out[p], panel_lanes(t.value_dim, panel + p));
    }
    to.at += step;
  }
}

// The same through all panels, `count` at a time.
template <int count, class Task, class Keep>
void delta_states(const Task& t, StatePlace to, int64_t step, Keep&& keep) {
  const int panels = (t.value_dim + kLanes - 1) / kLanes;
  int p = 0;
  for (; p + count <= panels; p += count) delta_panels<count>(t, p, to, step, keep);
  for (; p < panels; p++) delta_panels<1>(t, p, to, step, keep);
}

void delta_rule(const DeltaTask& t) {
  const auto keep = [](int, int, F32x16, F32x16) {};
  // A single token's state comes from memory, which answers more panels at once faster.
  const StatePlace own{t.state, int64_t(t.key_dim) * kLanes, kLanes};
  t.tokens > 1 ? delta_states<kDeltaPanels>(t, own, 0, keep) : delta_states<4>(t, own, 0, keep);
}

struct DeltaBackwardScratch {
  float* states;           // [tokens][key_dim][row], decayed for each token
  float *u, *rest, *dout;  // [tokens][panels * 16]: what is written; v - S^T k; d loss / d o
  float *du, *by_known;    // [panels * 16] of one token
  int64_t row, state;      // a row has a line more than it needs, so that neighbours are not of one set of a cache
  size_t bytes;

  ANNEAL_INLINE DeltaBackwardScratch(void* at, int tokens, int key_dim, int value_dim) {
    const size_t width = round_to(value_dim, kLanes);
    row = width + kLanes, state = row * key_dim;
    states = (float*)at;
    u = states + tokens * state;
    rest = u + tokens * width;
    dout = rest + tokens * width;
    du = dout + tokens * width;
    by_known = du + width;
    bytes = size_t(by_known + width - (float*)at) * sizeof(float);
  }
};

size_t delta_backward_scratch(int tokens, int key_dim, int value_dim) {
  return DeltaBackwardScratch(nullptr, tokens, key_dim, value_dim).bytes;
}

// States are computed again from the one before the first token; then tokens are gone through from the last to the
// first with the gradient of the state behind them. One pass over both for each: what a token makes of the gradient
// goes on as that behind the token before.
void delta_rule_backward(const DeltaBackwardTask& t) {
  const DeltaBackwardScratch s(t.scratch, t.tokens, t.key_dim, t.value_dim);
  const int panels = (t.value_dim + kLanes - 1) / kLanes, width = panels * kLanes;
  delta_states<kDeltaPanels>(t, {s.states, kLanes, s.row}, s.state, [&](int token, int panel, F32x16 rest, F32x16 u) {
    const int at = token * width + panel * kLanes;
    store(s.rest + at, rest);
    store(s.u + at, u);
    store(s.dout + at, load(t.dout + token * t.ldo + panel * kLanes, panel_lanes(t.value_dim, panel)));
  });
  // By the state behind a token: what later tokens make of it, `d`, and its own output; with what that adds to d u.
  const auto behind = [](F32x16 query, F32x16 key, const float* dout, F32x16 d, float* dstate, float* du) {
    d = fma(query, load(dout), d);
    store(dstate, d);
    store(du, fma(d, key, load(du)));
  };
  __builtin_memset(s.du, 0, width * sizeof(float));
  const int last = t.tokens - 1;
  for (int i = 0; i < t.key_dim; i++) {
    const F32x16 query = all(t.q[last * t.ldk + i]), key = all(t.k[last * t.ldk + i]);
    float* dstate = t.dstate + i * width;
    for (int p = 0; p < width; p += kLanes)
      behind(query, key, s.dout + last * width + p, load(dstate + p), dstate + p, s.du + p);
  }
  for (int token = t.tokens - 1; token >= 0; token--) {
    const float *q = t.q + token * t.ldk, *k = t.k + token * t.ldk, *states = s.states + token * s.state;
    const float *u = s.u + token * width, *dout = s.dout + token * width;
    float *dq = t.dq + token * t.ldk, *dk = t.dk + token * t.ldk;
    const F32x16 decay = all(t.decay[token * t.ldg]), strength = all(t.strength[token * t.ldg]);
    F32x16 by_strength = zero(), by_decay = zero();
    for (int p = 0; p < panels; p++) {
      const F32x16 du = load(s.du + p * kLanes), dv = du * strength;
      by_strength = fma(du, load(s.rest + token * width + p * kLanes), by_strength);
      store(t.dv + token * t.ldv + p * kLanes, dv, panel_lanes(t.value_dim, p));
      store(s.by_known + p * kLanes, negate(dv));
      store(s.du + p * kLanes, zero());
    }
    const auto pass = [&](auto more) {
      for (int i = 0; i < t.key_dim; i++) {
        const F32x16 key = all(k[i]), earlier_query = more ? all((q - t.ldk)[i]) : zero(),
                     earlier_key = more ? all((k - t.ldk)[i]) : zero();
        const float* state = states + i * s.row;
        float* dstate = t.dstate + i * width;
        F32x16 by_query = zero(), by_key = zero();
        for (int p = 0; p < width; p += kLanes) {
          const F32x16 by_known = load(s.by_known + p), written = load(u + p), decayed = load(state + p),
                       d = load(dstate + p), d_decayed = fma(key, by_known, d);
          by_query = fma(fma(key, written, decayed), load(dout + p), by_query);
          by_key = fma(d, written, by_key);
          by_key = fma(decayed, by_known, by_key);
          by_decay = fma(d_decayed, decayed, by_decay);
          if constexpr (more)
            behind(earlier_query, earlier_key, dout - width + p, d_decayed * decay, dstate + p, s.du + p);
          else
            store(dstate + p, d_decayed * decay);
        }
        dq[i] = dq[i] + sum_lanes(by_query);
        dk[i] = dk[i] + sum_lanes(by_key);
      }
    };
    if (token > 0)
      pass(std::true_type{});
    else
      pass(std::false_type{});
    t.d_log_decay[token * t.ldg] = sum_lanes(by_decay);
    t.d_strength[token * t.ldg] = sum_lanes(by_strength);
  }
}

// y (T) = norm(x) weight silu(gate), of one head.
template <class T> void gated_norm(const float* x, const void* gate, const float* weight, float eps, int n, void* y) {
  const F32x16 inverse = all(inverse_rms(x, n, eps));
  each16(n, [&](int64_t i, auto lanes) {
    store((T*)y + i,
          load(x + i, lanes) * inverse * load(weight + i, lanes) * Silu::value(load((const T*)gate + i, lanes)), lanes);
  });
}

// dx and dgate are overwritten (dx may be dy), dweight (or null) is added to.
template <class T>
void gated_norm_backward(const float* x, const void* gate, const float* weight, float eps, int n, const float* dy,
                         float* dx, float* dgate, float* dweight) {
  const float inverse = inverse_rms(x, n, eps);
  const F32x16 inv = all(inverse);
  F32x16 dot = zero();
  each16(n, [&](int64_t i, auto lanes) {
    F32x16 value, slope;
    Silu::value_and_slope(load((const T*)gate + i, lanes), value, slope);
    const F32x16 u = load(x + i, lanes) * inv, w = load(weight + i, lanes), d = load(dy + i, lanes), normed = d * value;
    store(dgate + i, d * u * w * slope, lanes);
    if (dweight) store(dweight + i, fma(normed, u, load(dweight + i, lanes)), lanes);
    store(dx + i, normed * w, lanes);
    dot = fma(normed * w, u, dot);
  });
  const F32x16 mean = all(-(sum_lanes(dot) / float(n)));
  each16(n, [&](int64_t i, auto lanes) {
    store(dx + i, fma(load(x + i, lanes) * inv, mean, load(dx + i, lanes)) * inv, lanes);
  });
}

}  // namespace
}  // namespace anneal::cpu
