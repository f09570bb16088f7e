// A gated short convolution: against a double reference, cut in any way, and its gradients.
#include "kernels_fixture.h"

namespace anneal::cpu::test {
namespace {

struct Shape {
  int rows, n, kernel;
  bool bias;
};

struct Values {
  Floats b, c, x, taps, bias;  // [kernel - 1 + rows][n], [rows][n], as b, [kernel][n], [n]
  Values(DType type, const Shape& s)
      : b(kept(type, normals(size_t(s.kernel - 1 + s.rows) * s.n))),
        c(kept(type, normals(size_t(s.rows) * s.n))),
        x(kept(type, normals(b.size()))),
        taps(normals(size_t(s.kernel) * s.n)),
        bias(normals(size_t(s.n))) {}
};

Floats products(const Kernels& k, const Shape& s, const Values& v) {
  Floats out(v.b.size());
  for (int t = 0; t < s.kernel - 1 + s.rows; t++) {
    const auto row = [&](const Floats& of) { return Floats(&of[size_t(t) * s.n], &of[size_t(t) * s.n] + s.n); };
    k.multiply(rounded(k, row(v.b), 1, s.n, s.n).at, rounded(k, row(v.x), 1, s.n, s.n).at, s.n, &out[size_t(t) * s.n]);
  }
  return out;
}

// In pieces of `piece` rows.
Floats forward(const Kernels& k, const Shape& s, const Values& v, int piece) {
  const Floats x = products(k, s, v);
  Block gate = rounded(k, v.c, s.rows, s.n, s.n), y(size_t(s.rows) * s.n * k.elem);
  for (int t = 0; t < s.rows; t += piece)
    k.gated_conv(&x[size_t(t) * s.n], s.n, v.taps.data(), s.n, s.bias ? v.bias.data() : nullptr, s.kernel,
                 std::min(piece, s.rows - t), s.n, (char*)gate.at + size_t(t) * s.n * k.elem, s.n,
                 (char*)y.at + size_t(t) * s.n * k.elem, s.n);
  return widened(k, y.at, s.rows, s.n, s.n);
}

void check(DType type, const Shape& s) {
  const std::string what = std::string("gated convolution ") + name(type) + " of " + std::to_string(s.kernel);
  const Values v(type, s);
  const Floats got = same_everywhere(type, what, [&](const Kernels& k) { return forward(k, s, v, s.rows); });
  for (int piece : {1, 3})
    expect(forward(*kernels(best_isa(), type), s, v, piece) == got, what + " in pieces of " + std::to_string(piece));
  std::vector<double> want(size_t(s.rows) * s.n);
  for (int t = 0; t < s.rows; t++)
    for (int i = 0; i < s.n; i++) {
      double sum = s.bias ? v.bias[i] : 0;
      for (int j = 0; j < s.kernel; j++) {
        const size_t at = size_t(t + j) * s.n + i;
        sum += double(v.b[at]) * v.x[at] * v.taps[size_t(j) * s.n + i];
      }
      want[size_t(t) * s.n + i] = v.c[size_t(t) * s.n + i] * sum;
    }
  near(what, got, want, type == DType::f32 ? 2e-6 : 4e-3, 0.1);

  const Floats dy = normals(size_t(s.rows) * s.n);
  const Floats back = same_everywhere(type, what + " backward", [&](const Kernels& k) {
    const Floats x = products(k, s, v);
    Block gate = rounded(k, v.c, s.rows, s.n, s.n);
    Floats dgate(dy.size()), dx(x.size()), dtaps(v.taps.size()), dbias(v.bias.size()), db(x.size());
    k.gated_conv_backward(x.data(), s.n, v.taps.data(), s.n, s.bias ? v.bias.data() : nullptr, s.kernel, s.rows, s.n,
                          gate.at, s.n, dy.data(), s.n, dgate.data(), s.n, dx.data(), s.n, dtaps.data(), s.n,
                          s.bias ? dbias.data() : nullptr);
    const int all = s.kernel - 1 + s.rows;
    Block b = rounded(k, v.b, all, s.n, s.n), other = rounded(k, v.x, all, s.n, s.n);
    k.multiply_backward(b.at, other.at, dx.data(), all * s.n, db.data(), dx.data());
    for (Floats* part : {&db, &dx, &dtaps, &dbias}) dgate.insert(dgate.end(), part->begin(), part->end());
    return dgate;
  });
  if (type == DType::bf16) return;
  const Kernels& k = *kernels(best_isa(), type);
  auto at = back.begin();
  for (Floats Values::*part : {&Values::c, &Values::b, &Values::x, &Values::taps, &Values::bias}) {
    const Floats gradient(at, at + (v.*part).size());
    at += gradient.size();
    if (part == &Values::bias && !s.bias) continue;
    check_gradient(
        what + " gradient", v.*part, gradient,
        [&](const Floats& moved) {
          Values y = v;
          y.*part = moved;
          return dot(forward(k, s, y, s.rows), dy);
        },
        3e-3);
  }
}

}  // namespace

void test_short_convolution() {
  for (DType type : {DType::f32, DType::bf16})
    for (const Shape& s : {Shape{7, 21, 3, false}, {5, 32, 4, true}, {4, 16, 1, true}}) check(type, s);
}

}  // namespace anneal::cpu::test
