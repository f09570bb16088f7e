// Everything that works row by row or element by element, with its gradient.
#include "kernels_fixture.h"

namespace anneal::cpu::test {
namespace {

Floats exp_of(const Kernels& k, const Floats& x, float shift = 0) {
  const int n = int(x.size()), blocks = (n + kLogitBlock - 1) / kLogitBlock;
  Floats maxima(size_t(blocks) * kLanes, INFINITY), y(n);  // maxima that let no block be passed over
  std::vector<double> masses(blocks);
  k.probabilities(x.data(), n, maxima.data(), {shift, 1, -INFINITY, 0}, y.data(), masses.data());
  return y;
}

// exp and log through probabilities and log_sum_exp, over their whole ranges.
void test_exp_log() {
  Floats x;
  for (float v = -104; v < 88.3f; v += 0.00037f) x.push_back(v);
  const int n = int(x.size());
  Floats y = same_everywhere(DType::f32, "exp", [&](const Kernels& k) { return exp_of(k, x); });
  double worst = 0;
  bool zeros = true;
  for (int i = 0; i < n; i++) {
    double want = std::exp(double(x[i]));
    if (want < 1.1754944e-38) {
      zeros &= y[i] == 0 || x[i] > -87.34f;
      continue;
    }
    double ulp = std::ldexp(1.0, std::ilogb(want) - 23);
    worst = std::fmax(worst, std::fabs(y[i] - want) / ulp);
  }
  std::printf("exp: at most %.3f ulp off\n", worst);
  expect(zeros, "exp of very negative numbers is 0");
  expect(worst < 1.1, "exp within 1.1 ulp");
  for (const Kernels* k : sets(DType::f32)) {
    const Floats out = exp_of(*k, {-INFINITY, INFINITY, NAN, 0, -0.0f, 100});
    expect(out[0] == 0 && out[1] > 1e38f && std::isnan(out[2]) && out[3] == 1 && out[4] == 1 && out[5] > 1e38f,
           "exp of special values");
  }
  // log: n equal logits of 0 and one of t give ln(n + e^t).
  double worst_log = 0;
  Floats logs = same_everywhere(DType::f32, "log", [&](const Kernels& k) {
    Floats out;
    for (int count = 1; count < 3000; count++) {
      Floats zeros(count, 0.0f);
      out.push_back(k.log_sum_exp(zeros.data(), count));
    }
    return out;
  });
  for (int count = 2; count < 3000; count++) {
    double want = std::log(double(count)), ulp = std::ldexp(1.0, std::ilogb(want) - 23);
    worst_log = std::fmax(worst_log, std::fabs(logs[count - 1] - want) / ulp);
  }
  std::printf("log: at most %.3f ulp off\n", worst_log);
  expect(logs[0] == 0 && worst_log < 1.0, "log within 1 ulp");
}

void test_logits(float cap) {
  for (int n : {1, 5, 16, 511, 512, 513, 1000, 5003}) {
    const int ld = n + 9;
    const Floats raw = normals(ld, 4);
    Floats x = raw;
    if (cap > 0) {
      x = same_everywhere(DType::f32, "soft cap", [&](const Kernels& k) {
        Floats y = raw;
        k.soft_cap(y.data(), n, cap);
        return y;
      });
      std::vector<double> want;
      for (int i = 0; i < n; i++) want.push_back(cap * std::tanh(raw[i] / double(cap)));
      near("soft cap", x, want, 4e-7);
    }
    const auto slope = [&](int i) { return cap > 0 ? 1 - std::pow(std::tanh(raw[i] / double(cap)), 2) : 1; };
    for (int i = n; i < ld; i++) x[i] = 1e30f;  // padding must not matter
    const int target = n / 2;
    for (DType type : {DType::f32, DType::bf16}) {
      Floats got = same_everywhere(type, "logits n=" + std::to_string(n), [&](const Kernels& k) {
        const float lse = k.log_sum_exp(x.data(), n);
        Floats out = exp_of(k, Floats(x.begin(), x.begin() + n), lse);
        Block y(size_t(ld) * k.elem);
        std::memset(y.at, 0xff, y.bytes);
        k.softmax_residual(x.data(), n, lse, target, 0.25f, cap, y.at, ld);
        Floats residual = widened(k, y.at, 1, ld, ld);
        out.insert(out.end(), residual.begin(), residual.end());
        const float entropy = k.entropy(x.data(), n, lse);
        Floats over(x.begin(), x.end());  // written over the logits
        expect(k.softmax_residual(over.data(), n, lse, target, 0.25f, cap, over.data(), n) == entropy &&
                   widened(k, over.data(), 1, n, n) == Floats(residual.begin(), residual.begin() + n),
               "residual written over logits");
        for (float v : {lse, entropy}) out.push_back(v);
        std::memset(y.at, 0xff, y.bytes);
        k.policy_residual(x.data(), n, lse, entropy, target, 0.25f, -0.5f, cap, y.at, ld);
        residual = widened(k, y.at, 1, ld, ld);
        out.insert(out.end(), residual.begin(), residual.end());
        Floats scaled(n);
        k.scale(x.data(), n, 1.75f, scaled.data());
        out.insert(out.end(), scaled.begin(), scaled.end());
        return out;
      });
      double top = -1e30, sum = 0, entropy = 0;
      for (int i = 0; i < n; i++) top = std::fmax(top, x[i]);
      for (int i = 0; i < n; i++) sum += std::exp(x[i] - top);
      const double lse = top + std::log(sum);
      // The others are given it rounded: at 12 by half a millionth, as much as which entropies near 0 are off by.
      const double given_lse = got[n + ld], given_entropy = got[n + ld + 1];
      std::vector<double> want(n + ld + 2 + ld + n);
      for (int i = 0; i < n; i++) {
        const double p = std::exp(x[i] - given_lse);
        want[i] = p;
        want[n + i] = 0.25 * ((i == target) - p) * slope(i);
        want[n + ld + 2 + i] = want[n + i] + 0.5 * p * (x[i] - given_lse + given_entropy) * slope(i);
        want[n + ld + 2 + ld + i] = 1.75 * x[i];
        entropy -= p * (x[i] - given_lse);
      }
      want[n + ld] = lse;
      want[n + ld + 1] = entropy;
      near("logits n=" + std::to_string(n) + " " + name(type), got, want, type == DType::f32 ? 1e-6 : 4e-3, 0.1);
    }
  }
}

void test_masked_logits() {
  Floats masked(600, -INFINITY);
  masked[550] = 2;
  for (const Kernels* k : sets(DType::f32)) {
    float lse = k->log_sum_exp(masked.data(), 600);
    expect(lse == 2, "log_sum_exp with masked logits");
    expect(k->entropy(masked.data(), 600, lse) == 0, "entropy with masked logits");
    Floats residual(600);
    k->policy_residual(masked.data(), 600, lse, 0, 3, 1, 1, 0, residual.data(), 600);
    expect(residual[3] == 1 && residual[550] == -1 && residual[0] == 0, "policy_residual with masked logits");
    Floats bad(600, 1.0f);
    bad[77] = NAN;
    expect(std::isnan(k->log_sum_exp(bad.data(), 600)), "log_sum_exp of NaN is NaN");
  }
}

void test_sums() {
  for (int n : {1, 15, 16, 33, 5000, 9001}) {
    Floats x = normals(n), y = normals(n);
    Floats got = same_everywhere(DType::f32, "sums n=" + std::to_string(n), [&](const Kernels& k) {
      Floats a = y, b = y;
      k.add(a.data(), x.data(), n);
      k.add_scaled(b.data(), x.data(), 0.37f, n);
      a.insert(a.end(), b.begin(), b.end());
      a.push_back(float(k.sum_squares(x.data(), n)));
      return a;
    });
    std::vector<double> want(2 * n + 1);
    for (int i = 0; i < n; i++) {
      want[i] = double(x[i]) + y[i];
      want[n + i] = double(0.37f) * x[i] + y[i];
      want[2 * n] += double(x[i]) * x[i];
    }
    near("sums n=" + std::to_string(n), got, want, 2e-7);
  }
  for (auto [rows, n] : {std::pair{1, 1}, {7, 20}, {64, 48}}) {
    const int ld = n + 3;
    Floats x = normals(size_t(rows) * ld), s = normals(n);
    Floats got = same_everywhere(DType::f32, "columns", [&](const Kernels& k) {
      Floats sums = s, biased = x;
      k.column_sums(x.data(), ld, rows, n, sums.data());
      k.bias_add(biased.data(), ld, rows, n, s.data());
      sums.insert(sums.end(), biased.begin(), biased.end());
      return sums;
    });
    std::vector<double> want(s.begin(), s.end());
    for (int r = 0; r < rows; r++)
      for (int i = 0; i < n; i++) want[i] += x[r * ld + i];
    for (int r = 0; r < rows; r++)
      for (int i = 0; i < ld; i++) want.push_back(x[r * ld + i] + (i < n ? double(s[i]) : 0));
    near("columns", got, want, 2e-6);
  }
}

void test_rmsnorm() {
  for (auto [rows, n] : {std::pair{3, 5}, {2, 16}, {5, 192}, {4, 333}}) {
    const int ldx = n + 2, ldy = round_up(n, 2) + 4;
    Floats x = normals(size_t(rows) * ldx), w = normals(n), dy = normals(size_t(rows) * n),
           dx0 = normals(size_t(rows) * ldx), dw0 = normals(n);
    const float eps = 1e-5f;
    for (DType type : {DType::f32, DType::bf16}) {
      std::string what = "rmsnorm n=" + std::to_string(n) + " " + name(type);
      Floats got = same_everywhere(type, what, [&](const Kernels& k) {
        Block y(size_t(rows) * ldy * k.elem);
        k.rmsnorm(x.data(), ldx, w.data(), eps, rows, n, y.at, ldy);
        Floats out = widened(k, y.at, rows, n, ldy), dx = dx0, dw = dw0;
        k.rmsnorm_backward(x.data(), ldx, w.data(), eps, dy.data(), n, rows, n, dx.data(), ldx, dw.data());
        out.insert(out.end(), dx.begin(), dx.end());
        out.insert(out.end(), dw.begin(), dw.end());
        return out;
      });
      std::vector<double> want(size_t(rows) * n);
      for (int r = 0; r < rows; r++) {
        double s = 0;
        for (int i = 0; i < n; i++) s += double(x[r * ldx + i]) * x[r * ldx + i];
        for (int i = 0; i < n; i++) want[r * n + i] = x[r * ldx + i] / std::sqrt(s / n + eps) * w[i];
      }
      near(what, got, want, type == DType::f32 ? 1e-6 : 4e-3, 0.01);
      if (type == DType::bf16) continue;
      const Kernels& k = *kernels(best_isa(), type);
      auto loss = [&](const Floats& xx, const Floats& ww) {
        Floats y(size_t(rows) * n);
        k.rmsnorm(xx.data(), ldx, ww.data(), eps, rows, n, y.data(), n);
        return dot(y, dy);
      };
      Floats dx(got.begin() + rows * n, got.begin() + rows * n + rows * ldx), dw(got.end() - n, got.end());
      for (size_t i = 0; i < dx.size(); i++) dx[i] -= dx0[i];
      for (int i = 0; i < n; i++) dw[i] -= dw0[i];
      check_gradient(what + " dx", x, dx, [&](const Floats& v) { return loss(v, w); }, 2e-3);
      check_gradient(what + " dweight", w, dw, [&](const Floats& v) { return loss(x, v); }, 2e-3);
    }
  }
}

void test_rope() {
  for (auto [hd, rotary] : {std::pair{8, 8},
                            {16, 16},
                            {24, 24},
                            {32, 32},
                            {64, 64},
                            {80, 80},
                            {96, 96},
                            {128, 128},
                            {256, 256},
                            {96, 72},
                            {128, 32},
                            {20, 6},
                            {256, 64}})
    for (bool norm : {false, true}) {
      const int heads = 3, ldx = hd + 4, half = rotary / 2;
      const float eps = 1e-6f;
      Floats w = normals(hd), c(half), s(half), dy = normals(size_t(heads) * hd), dw0 = normals(hd);
      for (int i = 0; i < half; i++) {
        double angle = 37 * std::pow(10000.0, -2.0 * i / rotary);
        c[i] = float(std::cos(angle)), s[i] = float(std::sin(angle));
      }
      for (DType type : {DType::f32, DType::bf16}) {
        Floats x = kept(type, normals(size_t(heads) * ldx));
        const float* weight = norm ? w.data() : nullptr;
        std::string what = "rope head_dim=" + std::to_string(hd) + (norm ? " with norm " : " ") + name(type);
        Floats got = same_everywhere(type, what, [&](const Kernels& k) {
          Block t = rounded(k, x, heads, ldx, ldx);
          Floats y(size_t(heads) * hd), dx(y.size()), dw = dw0;
          k.head_norm_rope(t.at, ldx, heads, hd, rotary, weight, eps, c.data(), s.data(), y.data());
          k.head_norm_rope_backward(t.at, ldx, heads, hd, rotary, weight, eps, c.data(), s.data(), dy.data(), dx.data(),
                                    norm ? dw.data() : nullptr);
          y.insert(y.end(), dx.begin(), dx.end());
          y.insert(y.end(), dw.begin(), dw.end());
          return y;
        });
        std::vector<double> want(size_t(heads) * hd);
        for (int h = 0; h < heads; h++) {
          std::vector<double> u(hd);
          double ss = 0;
          for (int i = 0; i < hd; i++) ss += double(x[h * ldx + i]) * x[h * ldx + i];
          for (int i = 0; i < hd; i++) u[i] = x[h * ldx + i] * (norm ? w[i] / std::sqrt(ss / hd + eps) : 1.0);
          for (int i = rotary; i < hd; i++) want[h * hd + i] = u[i];
          for (int i = 0; i < half; i++) {
            want[h * hd + i] = u[i] * c[i] - u[i + half] * s[i];
            want[h * hd + i + half] = u[i + half] * c[i] + u[i] * s[i];
          }
        }
        near(what, got, want, 1e-6);
        if (type == DType::bf16) continue;
        const Kernels& k = *kernels(best_isa(), type);
        auto loss = [&](const Floats& xx, const float* ww) {
          Floats y(size_t(heads) * hd);
          k.head_norm_rope(xx.data(), ldx, heads, hd, rotary, ww, eps, c.data(), s.data(), y.data());
          return dot(y, dy);
        };
        Floats dx(size_t(heads) * ldx), dw(got.end() - hd, got.end());
        for (int h = 0; h < heads; h++) std::memcpy(&dx[h * ldx], &got[size_t(heads + h) * hd], hd * 4);
        check_gradient(what + " dx", x, dx, [&](const Floats& v) { return loss(v, weight); }, 2e-3);
        for (int i = 0; i < hd; i++) dw[i] -= dw0[i];
        if (norm) check_gradient(what + " dweight", w, dw, [&](const Floats& v) { return loss(x, v.data()); }, 2e-3);
      }
    }
}

void test_gated(const std::string& activation, GatedActivation Kernels::* gated, double (*value)(double, double),
                float spread = 1) {
  for (int n : {1, 16, 37, 576}) {
    const int rows = 3, ld = n + 1;
    for (DType type : {DType::f32, DType::bf16}) {
      Floats g = kept(type, normals(size_t(rows) * ld, 5)), u = kept(type, normals(size_t(rows) * ld)),
             dy = normals(size_t(rows) * n);
      for (Floats* x : {&g, &u})
        for (float& v : *x) {
          v *= spread;
          // Across the bend of what is clamped at 7, differences tell no gradient.
          if (std::fabs(std::fabs(v) - 7) < 0.1f) v = std::copysign(6.5f, v);
        }
      std::string what = activation + " n=" + std::to_string(n) + " " + name(type);
      Floats got = same_everywhere(type, what, [&](const Kernels& k) {
        Block gate = rounded(k, g, rows, ld, ld), up = rounded(k, u, rows, ld, ld), y(size_t(rows) * ld * k.elem);
        (k.*gated).mul(gate.at, up.at, ld, rows, n, y.at, ld);
        const Floats out = widened(k, y.at, rows, n, ld);
        // The same of what has not been rounded, with and without keeping what is rounded; and once more in backward.
        Floats sums[] = {g, u};
        for (Floats& s : sums)
          for (float& v : s) v *= 1 + 0x1p-12f;
        Block kept_gate(gate.bytes), kept_up(up.bytes), again(y.bytes), unkept(y.bytes), dg(gate.bytes), du(up.bytes);
        (k.*gated).round_mul(sums[0].data(), sums[1].data(), ld, rows, n, kept_gate.at, kept_up.at, ld, again.at, ld);
        (k.*gated).round_mul(sums[0].data(), sums[1].data(), ld, rows, n, nullptr, nullptr, 0, unkept.at, ld);
        const Block want_gate = rounded(k, sums[0], rows, ld, ld), want_up = rounded(k, sums[1], rows, ld, ld);
        expect(widened(k, kept_gate.at, rows, n, ld) == widened(k, want_gate.at, rows, n, ld) &&
                   widened(k, kept_up.at, rows, n, ld) == widened(k, want_up.at, rows, n, ld),
               what + ": what is kept");
        Block want(y.bytes);
        (k.*gated).mul(want_gate.at, want_up.at, ld, rows, n, want.at, ld);
        for (const Block* b : {&again, &unkept})
          expect(widened(k, b->at, rows, n, ld) == widened(k, want.at, rows, n, ld), what + ": of sums");
        Block backward(y.bytes);
        (k.*gated).mul_backward(gate.at, up.at, ld, dy.data(), n, rows, n, dg.at, du.at, ld, backward.at, ld);
        expect(widened(k, backward.at, rows, n, ld) == out, what + ": again in backward");
        Floats all = out;
        for (const Block* b : {&dg, &du}) {
          const Floats d = widened(k, b->at, rows, ld, ld);
          all.insert(all.end(), d.begin(), d.end());
        }
        return all;
      });
      std::vector<double> want;
      for (int r = 0; r < rows; r++)
        for (int i = 0; i < n; i++) want.push_back(value(g[r * ld + i], u[r * ld + i]));
      near(what, got, want, type == DType::f32 ? 1e-6 : 4e-3, 0.01);
      if (type == DType::bf16) continue;
      const Kernels& k = *kernels(best_isa(), type);
      auto loss = [&](const Floats& gg, const Floats& uu) {
        Floats y(size_t(rows) * n);
        (k.*gated).mul(gg.data(), uu.data(), ld, rows, n, y.data(), n);
        return dot(y, dy);
      };
      Floats dg(got.begin() + rows * n, got.begin() + rows * (n + ld)), du(got.end() - rows * ld, got.end());
      check_gradient(what + " dgate", g, dg, [&](const Floats& v) { return loss(v, u); }, 2e-3);
      check_gradient(what + " dup", u, du, [&](const Floats& v) { return loss(g, v); }, 2e-3);
    }
  }
}

void test_activations() {
  test_gated("silu", &Kernels::silu, [](double g, double u) { return g / (1 + std::exp(-g)) * u; });
  test_gated("gelu", &Kernels::gelu_tanh, [](double g, double u) {
    return u * g / 2 * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (g + 0.044715 * g * g * g)));
  });
  const auto clamped = [](double g, double u) {
    g = std::min(g, 7.0), u = std::clamp(u, -7.0, 7.0);
    return g / (1 + std::exp(-1.702 * g)) * (u + 1);
  };
  test_gated("clamped swiglu", &Kernels::clamped_swiglu, clamped);
  test_gated("clamped swiglu, clamped", &Kernels::clamped_swiglu, clamped, 4);
  test_gated("logistic", &Kernels::logistic, [](double g, double u) { return u / (1 + std::exp(-g)); });
}

void test_adamw() {
  const int n = 531;
  Floats w0 = normals(n), g[3];
  for (auto& v : g) v = normals(n, 0.02f);
  const double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, decay = 0.1;
  Floats got = same_everywhere(DType::f32, "adamw", [&](const Kernels& k) {
    Floats w = w0, m(n), v(n);
    for (int t = 1; t <= 3; t++)
      k.adamw(w.data(), g[t - 1].data(), m.data(), v.data(), n,
              {lr, beta1, beta2, eps, decay, 1 - std::pow(beta1, t), 1 - std::pow(beta2, t), 0.5});
    w.insert(w.end(), m.begin(), m.end());
    w.insert(w.end(), v.begin(), v.end());
    return w;
  });
  std::vector<double> w(w0.begin(), w0.end()), m(n), v(n);
  for (int t = 1; t <= 3; t++)
    for (int i = 0; i < n; i++) {
      const double grad = 0.5 * g[t - 1][i];
      w[i] *= 1 - lr * decay;
      m[i] = beta1 * m[i] + (1 - beta1) * grad;
      v[i] = beta2 * v[i] + (1 - beta2) * grad * grad;
      w[i] -= lr * (m[i] / (1 - std::pow(beta1, t))) / (std::sqrt(v[i] / (1 - std::pow(beta2, t))) + eps);
    }
  near("adamw w", got, w, 4e-7, 0.1);
  near("adamw m", Floats(got.begin() + n, got.begin() + 2 * n), m, 3e-7, 1e-3);
  near("adamw v", Floats(got.begin() + 2 * n, got.end()), v, 3e-7, 1e-7);
}

void test_float_mode() {
  volatile float tiny = 1e-38f, half = 0.25f;
  const float before = tiny * half;
  {
    FloatMode nested;
    expect(tiny * half == 0, "denormals flushed");
  }
  expect(tiny * half == before, "mode restored");
}

}  // namespace

void test_rows() {
  test_float_mode();
  test_exp_log();
  test_logits(0);
  test_logits(7);
  test_masked_logits();
  test_sums();
  test_rmsnorm();
  test_rope();
  test_activations();
  test_adamw();
}

}  // namespace anneal::cpu::test
