// The gated delta rule and what stands around it: against double references, cut in any way, and its gradients.
#include "kernels_fixture.h"

namespace anneal::cpu::test {
namespace {

struct Tokens {
  int count, key_dim, value_dim;
  Floats q, k, v, decay, strength, dout, state;
  Tokens(int n, int kd, int vd)
      : count(n),
        key_dim(kd),
        value_dim(vd),
        q(normals(size_t(n) * kd, 0.4f)),
        // Of a norm of about 1, as models have them: longer ones let errors grow from token to token.
        k(normals(size_t(n) * kd, 1 / std::sqrt(float(kd)))),
        v(normals(size_t(n) * vd)),
        decay(n),
        strength(n),
        dout(normals(size_t(n) * vd)),
        state(size_t(delta_state_floats(kd, vd))) {
    for (int t = 0; t < n; t++) {
      decay[t] = std::exp(-std::fabs(normal()) * 0.3f);
      strength[t] = 1 / (1 + std::exp(-normal()));
    }
    for (int j = 0; j < vd; j++)
      for (int i = 0; i < kd; i++) state[at(i, j)] = 0.3f * normal();
  }
  size_t at(int i, int j) const { return (size_t(j / kLanes) * key_dim + i) * kLanes + j % kLanes; }
  size_t gradient_at(int i, int j) const { return i * (state.size() / key_dim) + j; }

  // Outputs, then the state behind them; the tokens in pieces.
  Floats run(const Kernels& kernels, int piece) const {
    Block s(state.size() * 4);
    std::memcpy(s.at, state.data(), state.size() * 4);
    Floats out(size_t(count) * value_dim);
    for (int t = 0; t < count; t += piece)
      kernels.delta_rule({std::min(piece, count - t), key_dim, value_dim, &q[size_t(t) * key_dim],
                          &k[size_t(t) * key_dim], key_dim, &v[size_t(t) * value_dim], value_dim, &decay[t],
                          &strength[t], 1, (float*)s.at, &out[size_t(t) * value_dim], value_dim});
    out.insert(out.end(), (float*)s.at, (float*)s.at + state.size());
    return out;
  }
  // dq, dk, dv, d ln decay, d strength, d state, where the state behind the tokens has a gradient too.
  Floats backward(const Kernels& kernels, const Floats& dstate) const {
    Block scratch(kernels.delta_backward_scratch(count, key_dim, value_dim)), d(state.size() * 4);
    float* const by_state = (float*)d.at;
    for (int j = 0; j < value_dim; j++)
      for (int i = 0; i < key_dim; i++) by_state[gradient_at(i, j)] = dstate[at(i, j)];
    Floats dq(q.size()), dk(q.size()), dv(v.size()), by_decay(count), by_strength(count);
    DeltaBackwardTask t{};
    t.tokens = count, t.key_dim = key_dim, t.value_dim = value_dim;
    t.q = q.data(), t.k = k.data(), t.ldk = key_dim, t.v = v.data(), t.ldv = t.ldo = value_dim;
    t.decay = decay.data(), t.strength = strength.data(), t.ldg = 1;
    t.state = state.data(), t.dout = dout.data(), t.dstate = by_state;
    t.dq = dq.data(), t.dk = dk.data(), t.dv = dv.data();
    t.d_log_decay = by_decay.data(), t.d_strength = by_strength.data(), t.scratch = scratch.at;
    kernels.delta_rule_backward(t);
    for (Floats* part : {&dk, &dv, &by_decay, &by_strength}) dq.insert(dq.end(), part->begin(), part->end());
    Floats panels(state.size());
    for (int j = 0; j < value_dim; j++)
      for (int i = 0; i < key_dim; i++) panels[at(i, j)] = by_state[gradient_at(i, j)];
    dq.insert(dq.end(), panels.begin(), panels.end());
    return dq;
  }
};

void test_scan() {
  for (auto [n, kd, vd] : {std::tuple{1, 4, 4}, {9, 16, 16}, {13, 10, 70}, {16, 24, 37}, {33, 128, 128}}) {
    Tokens x(n, kd, vd);
    const std::string what = "delta rule " + std::to_string(kd) + " x " + std::to_string(vd);
    const Floats got = same_everywhere(DType::f32, what, [&](const Kernels& k) { return x.run(k, n); });
    for (int piece : {1, 5, 16}) {
      const Floats cut = x.run(*kernels(best_isa(), DType::f32), piece);
      expect(!std::memcmp(cut.data(), got.data(), got.size() * 4), what + ": a cut changes the bits");
    }
    std::vector<double> s(x.state.begin(), x.state.end()), want(size_t(n) * vd);
    for (int t = 0; t < n; t++)
      for (int j = 0; j < vd; j++) {
        double known = 0, out = 0;
        for (int i = 0; i < kd; i++) known += (s[x.at(i, j)] *= x.decay[t]) * x.k[t * kd + i];
        const double u = x.strength[t] * (x.v[t * vd + j] - known);
        for (int i = 0; i < kd; i++) out += (s[x.at(i, j)] += u * x.k[t * kd + i]) * x.q[t * kd + i];
        want[t * vd + j] = out;
      }
    want.insert(want.end(), s.begin(), s.end());
    near(what, got, want, 2e-6);

    const Floats dstate = [&] {
      Floats d(x.state.size());
      for (int j = 0; j < vd; j++)
        for (int i = 0; i < kd; i++) d[x.at(i, j)] = 0.2f * normal();
      return d;
    }();
    const Floats back =
        same_everywhere(DType::f32, what + " backward", [&](const Kernels& k) { return x.backward(k, dstate); });
    if (n > 16) continue;
    const Kernels& k = *kernels(best_isa(), DType::f32);
    const auto loss = [&](const Tokens& y) {
      const Floats out = y.run(k, n);
      return dot(Floats(out.begin(), out.begin() + n * vd), x.dout) +
             dot(Floats(out.begin() + n * vd, out.end()), dstate);
    };
    const float* at = back.data();
    const auto check = [&](const char* name, Floats Tokens::*part) {
      const Floats gradient(at, at + (x.*part).size());
      at += gradient.size();
      check_gradient(
          what + " " + name, x.*part, gradient,
          [&](const Floats& v) {
            Tokens y = x;
            y.*part = v;
            return loss(y);
          },
          3e-3);
    };
    check("dq", &Tokens::q), check("dk", &Tokens::k), check("dv", &Tokens::v);
    Floats by_decay(at, at + n);
    for (int t = 0; t < n; t++) by_decay[t] /= x.decay[t];  // of the decay itself
    check_gradient(
        what + " decay", x.decay, by_decay,
        [&](const Floats& v) {
          Tokens y = x;
          y.decay = v;
          return loss(y);
        },
        3e-3);
    at += n;
    check("strength", &Tokens::strength), check("state", &Tokens::state);
  }
}

void test_short_conv() {
  const int rows = 7, n = 21, kernel = 4, ld = n + 3;
  const Floats x = normals(size_t(rows + kernel - 1) * ld), taps = normals(size_t(kernel) * ld),
               dy = normals(size_t(rows) * ld);
  const auto forward = [&](const Kernels& k, const Floats& xx, const Floats& tt) {
    Floats y(size_t(rows) * ld);
    k.short_conv(xx.data(), ld, tt.data(), ld, kernel, rows, n, y.data(), ld);
    return y;
  };
  const Floats got =
      same_everywhere(DType::f32, "short convolution", [&](const Kernels& k) { return forward(k, x, taps); });
  std::vector<double> want(size_t(rows) * ld);
  for (int t = 0; t < rows; t++)
    for (int i = 0; i < n; i++) {
      double sum = 0;
      for (int j = 0; j < kernel; j++) sum += double(x[(t + j) * ld + i]) * taps[j * ld + i];
      want[t * ld + i] = sum / (1 + std::exp(-sum));
    }
  near("short convolution", got, want, 1e-6);
  const Floats back = same_everywhere(DType::f32, "short convolution backward", [&](const Kernels& k) {
    Floats dx(x.size()), dtaps(taps.size());
    k.short_conv_backward(x.data(), ld, taps.data(), ld, kernel, rows, n, dy.data(), ld, dx.data(), ld, dtaps.data());
    dx.insert(dx.end(), dtaps.begin(), dtaps.end());
    return dx;
  });
  const Kernels& k = *kernels(best_isa(), DType::f32);
  check_gradient(
      "short convolution dx", x, Floats(back.begin(), back.begin() + x.size()),
      [&](const Floats& v) { return dot(forward(k, v, taps), dy); }, 3e-3);
  check_gradient(
      "short convolution dtaps", taps, Floats(back.begin() + x.size(), back.end()),
      [&](const Floats& v) { return dot(forward(k, x, v), dy); }, 3e-3);
}

void test_norms_and_gates() {
  for (int n : {4, 16, 37, 128}) {
    const Floats x = normals(n), dy = normals(n), w = normals(n);
    const Floats got = same_everywhere(DType::f32, "l2 norm", [&](const Kernels& k) {
      Floats y(n), dx(n);
      k.l2_norm(x.data(), n, 0.3f, y.data());
      k.l2_norm_backward(x.data(), n, 0.3f, dy.data(), dx.data());
      y.insert(y.end(), dx.begin(), dx.end());
      return y;
    });
    double sum = 1e-6;
    for (float v : x) sum += double(v) * v;
    std::vector<double> want;
    for (float v : x) want.push_back(0.3 * v / std::sqrt(sum));
    near("l2 norm", got, want, 1e-6);
    const Kernels& best = *kernels(best_isa(), DType::f32);
    check_gradient(
        "l2 norm dx", x, Floats(got.begin() + n, got.end()),
        [&](const Floats& v) {
          Floats y(n);
          best.l2_norm(v.data(), n, 0.3f, y.data());
          return dot(y, dy);
        },
        3e-3);

    for (DType type : {DType::f32, DType::bf16}) {
      const Floats gate = kept(type, normals(n, 2));
      const float eps = 1e-6f;
      const auto forward = [&](const Kernels& k, const Floats& xx, const Floats& gg, const Floats& ww) {
        Block g = rounded(k, gg, 1, n, n), y(size_t(n) * k.elem);
        k.gated_norm(xx.data(), g.at, ww.data(), eps, n, y.at);
        return widened(k, y.at, 1, n, n);
      };
      const std::string what = std::string("gated norm ") + name(type);
      const Floats normed = same_everywhere(type, what, [&](const Kernels& k) {
        Block g = rounded(k, gate, 1, n, n);
        Floats y = forward(k, x, gate, w), dx(n), dgate(n), dw(n);
        k.gated_norm_backward(x.data(), g.at, w.data(), eps, n, dy.data(), dx.data(), dgate.data(), dw.data());
        for (Floats* part : {&dx, &dgate, &dw}) y.insert(y.end(), part->begin(), part->end());
        return y;
      });
      double squares = 0;
      for (float v : x) squares += double(v) * v;
      std::vector<double> expected;
      for (int i = 0; i < n; i++)
        expected.push_back(x[i] / std::sqrt(squares / n + eps) * w[i] * gate[i] / (1 + std::exp(-double(gate[i]))));
      near(what, normed, expected, type == DType::f32 ? 2e-6 : 4e-3, 0.1);
      if (type == DType::bf16) continue;
      const auto part = [&](int p) { return Floats(normed.begin() + p * n, normed.begin() + (p + 1) * n); };
      check_gradient(
          what + " dx", x, part(1), [&](const Floats& v) { return dot(forward(best, v, gate, w), dy); }, 3e-3);
      check_gradient(
          what + " dgate", gate, part(2), [&](const Floats& v) { return dot(forward(best, x, v, w), dy); }, 3e-3);
      check_gradient(
          what + " dweight", w, part(3), [&](const Floats& v) { return dot(forward(best, x, gate, v), dy); }, 3e-3);
    }

    Floats a = normals(n, 4), b = normals(n, 2), rate(n), bias = normals(n), by_decay = normals(n);
    for (float& r : rate) r = std::exp(normal());
    const auto gates = [&](const Kernels& k, const Floats& aa, const Floats& bb, const Floats& rr, const Floats& cc) {
      Floats decay(n), strength(n);
      k.delta_gates(aa.data(), bb.data(), rr.data(), cc.data(), n, decay.data(), strength.data());
      decay.insert(decay.end(), strength.begin(), strength.end());
      return decay;
    };
    const Floats both =
        same_everywhere(DType::f32, "gates", [&](const Kernels& k) { return gates(k, a, b, rate, bias); });
    std::vector<double> expected;
    for (int i = 0; i < n; i++)
      expected.push_back(std::exp(-double(rate[i]) * std::log1p(std::exp(double(a[i]) + bias[i]))));
    for (int i = 0; i < n; i++) expected.push_back(1 / (1 + std::exp(-double(b[i]))));
    near("gates", both, expected, 2e-6);
    const Floats back = same_everywhere(DType::f32, "gates backward", [&](const Kernels& k) {
      Floats da(n), db(n), by_rate(n), dbias(n);
      k.delta_gates_backward(a.data(), b.data(), rate.data(), bias.data(), n, by_decay.data(), dy.data(), da.data(),
                             db.data(), by_rate.data(), dbias.data());
      for (Floats* part : {&db, &by_rate, &dbias}) da.insert(da.end(), part->begin(), part->end());
      return da;
    });
    const auto loss = [&](const Floats& aa, const Floats& bb, const Floats& rr, const Floats& cc) {
      const Floats out = gates(best, aa, bb, rr, cc);
      double sum = 0;
      for (int i = 0; i < n; i++) sum += double(by_decay[i]) * std::log(out[i]) + double(dy[i]) * out[n + i];
      return sum;
    };
    const auto part = [&](int p) { return Floats(back.begin() + p * n, back.begin() + (p + 1) * n); };
    Floats by_rate = part(2);
    for (int i = 0; i < n; i++) by_rate[i] /= rate[i];  // of the rate itself
    check_gradient(
        "gates da", a, part(0), [&](const Floats& v) { return loss(v, b, rate, bias); }, 5e-3);
    check_gradient(
        "gates db", b, part(1), [&](const Floats& v) { return loss(a, v, rate, bias); }, 5e-3);
    check_gradient(
        "gates rate", rate, by_rate, [&](const Floats& v) { return loss(a, b, v, bias); }, 5e-3);
    check_gradient(
        "gates bias", bias, part(3), [&](const Floats& v) { return loss(a, b, rate, v); }, 5e-3);
  }
}

}  // namespace

void test_delta_rule() {
  test_scan();
  test_short_conv();
  test_norms_and_gates();
}

}  // namespace anneal::cpu::test
