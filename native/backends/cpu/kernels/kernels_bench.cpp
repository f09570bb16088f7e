// Throughput of the kernels on one thread, per instruction set.
#include <chrono>

#include "kernels_fixture.h"

namespace anneal::cpu::test {
namespace {

// Wall time: a busy machine can only make a result look worse. (The thread's processor clock jumps on virtual machines,
// and the best of many readings would pick the jumps.)
double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Best time of one call over about 0.2 s.
double best_time(const std::function<void()>& call) {
  double best = 1e9;
  const double start = seconds();
  for (int i = 0; i < 3 || seconds() - start < 0.2; i++) {
    const double t = seconds();
    call();
    best = std::fmin(best, seconds() - t);
  }
  return best;
}

void bench_gemm(DType type, int n, int k, std::initializer_list<int> row_counts) {
  for (const Kernels* kernel : sets(type)) {
    std::printf("gemm %s %-10s N=%d K=%d:", name(type), isa_name(kernel->isa), n, k);
    // Enough copies of the weights that one row reads them from memory.
    const int copies = int(std::max<size_t>(1, (64 << 20) / (size_t(n) * k * kernel->elem)));
    std::vector<Block> weights;
    for (int i = 0; i < copies; i++) weights.push_back(packed(*kernel, normals(size_t(n) * k), n, k));
    for (int m : row_counts) {
      if (kernel->isa == Isa::portable && m > 64) continue;
      Block a = rounded(*kernel, normals(size_t(m) * k), m, k, k);
      Floats c(size_t(m) * n);
      int at = 0;
      double t = best_time([&] { kernel->gemm(a.at, k, m, weights[at++ % copies].at, k, n / 16, c.data(), n, false); });
      std::printf("  m=%d %.1f GFLOP/s", m, 2.0 * m * n * k / t / 1e9);
      if (m == 1) std::printf(" (%.0f GB/s)", double(n) * k * kernel->elem / t / 1e9);
    }
    std::printf("\n");
  }
}

// What one thread reads from memory.
void bench_memory() {
  const Kernels& k = *kernels(best_isa(), DType::f32);
  Floats x(size_t(64) << 20, 1.0f);
  std::printf("memory read: %.1f GB/s\n",
              x.size() * 4 / best_time([&] { k.sum_squares(x.data(), int64_t(x.size())); }) / 1e9);
}

void bench_attention(DType type, KvCache format, int hd, int keys, int rows) {
  for (const Kernels* k : sets(type)) {
    if (k->isa == Isa::portable) continue;
    const AttentionKernels& over = k->attention_over(format);
    Cache cache(*k, hd, keys, normals(size_t(keys) * hd), normals(size_t(keys) * hd), format);
    Floats q = normals(size_t(rows) * hd), out(size_t(rows) * hd), lse(rows), dk(64 * hd), dv(64 * hd),
           dq(size_t(rows) * hd);
    std::vector<int32_t> positions(rows, keys - 1);
    Block left = rounded(*k, q, rows, hd, hd), scratch(over.attention_scratch(hd)),
          back(over.attention_backward_scratch(hd));
    AttentionTask t{rows,
                    hd,
                    0.1f,
                    left.at,
                    hd,
                    positions.data(),
                    keys / kPage,
                    cache.k_pages.data(),
                    cache.v_pages.data(),
                    out.data(),
                    hd,
                    lse.data(),
                    scratch.at};
    const double forward = best_time([&] { over.attention(t); });
    Floats delta(rows);
    std::vector<float*> dks(keys / kPage, dk.data()), dvs(keys / kPage, dv.data());
    AttentionBackwardTask b{};
    b.rows = rows, b.head_dim = hd, b.scale = 0.1f;
    b.q = b.dout = left.at, b.ldq = b.lddo = hd;
    b.delta = delta.data(), b.lse = lse.data(), b.positions = positions.data();
    b.blocks = keys / kPage, b.k_pages = cache.k_pages.data(), b.v_pages = cache.v_pages.data();
    b.dq = dq.data(), b.dk = dks.data(), b.dv = dvs.data(), b.lddq = b.lddkv = hd;
    b.scratch = back.at;
    const double backward = best_time([&] { over.attention_backward(b); });
    const double flop = 4.0 * rows * keys * hd;
    std::printf(
        "attention %s%s %-10s head_dim=%d keys=%d rows=%d: forward %.0f GFLOP/s (%.1f GB/s of pages), "
        "backward %.0f GFLOP/s\n",
        name(type), format == KvCache::int8 ? " over int8" : "", isa_name(k->isa), hd, keys, rows, flop / forward / 1e9,
        2.0 * keys / kPage * over.page_bytes(hd) / forward / 1e9, 2.5 * flop / backward / 1e9);
  }
}

void bench_delta_rule(int tokens, int dim) {
  const Floats k = normals(size_t(tokens) * dim, 1 / std::sqrt(float(dim))), v = normals(k.size()), gate(tokens, 0.9f);
  const Floats start(size_t(delta_state_floats(dim, dim)));
  for (const Kernels* kernel : sets(DType::f32)) {
    Block state(start.size() * 4), d_state(start.size() * 4), scratch(kernel->delta_backward_scratch(tokens, dim, dim));
    Floats out(k.size()), dq(k.size()), dk(k.size()), dv(k.size()), d_decay(tokens), d_strength(tokens);
    const double forward = best_time([&] {
      kernel->delta_rule({tokens, dim, dim, k.data(), k.data(), dim, v.data(), dim, gate.data(), gate.data(), 1,
                          (float*)state.at, out.data(), dim});
    });
    DeltaBackwardTask t{};
    t.tokens = tokens, t.key_dim = t.value_dim = dim;
    t.q = t.k = k.data(), t.v = v.data(), t.ldk = t.ldv = t.ldo = dim;
    t.decay = t.strength = gate.data(), t.ldg = 1;
    t.state = start.data(), t.dout = v.data(), t.dstate = (float*)d_state.at;
    t.dq = dq.data(), t.dk = dk.data(), t.dv = dv.data();
    t.d_log_decay = d_decay.data(), t.d_strength = d_strength.data(), t.scratch = scratch.at;
    const double backward = best_time([&] { kernel->delta_rule_backward(t); });
    std::printf("delta rule %-10s %d x %d, %d tokens: forward %.2f us a token, backward %.2f\n", isa_name(kernel->isa),
                dim, dim, tokens, forward / tokens * 1e6, backward / tokens * 1e6);
  }
}

void bench_elementwise(DType type) {
  for (const Kernels* k : sets(type)) {
    const int rows = 256, n = 192, wide = 576, heads = 6, hd = 32, vocab = 4096;
    Floats x = normals(size_t(rows) * wide), w = normals(wide), dx(x.size()), dw(wide), c = normals(16),
           s = normals(16), y(x.size()), logits = normals(vocab);
    Block t = rounded(*k, x, rows, wide, wide), u(t.bytes), v(size_t(rows) * vocab * 4);
    auto rate = [&](const char* what, double elements, const std::function<void()>& call) {
      std::printf("  %s %.2f", what, elements / best_time(call) / 1e9);
    };
    std::printf("%s %-10s elements per ns:", name(type), isa_name(k->isa));
    rate("rmsnorm", rows * n, [&] { k->rmsnorm(x.data(), n, w.data(), 1e-5f, rows, n, u.at, n); });
    rate("its gradient", rows * n,
         [&] { k->rmsnorm_backward(x.data(), n, w.data(), 1e-5f, x.data(), n, rows, n, dx.data(), n, dw.data()); });
    rate("rope", rows * n, [&] {
      for (int r = 0; r < rows; r++)
        k->head_norm_rope((char*)t.at + size_t(r) * n * k->elem, hd, heads, hd, hd, nullptr, 0, c.data(), s.data(),
                          y.data());
    });
    rate("norm+rope", rows * n, [&] {
      for (int r = 0; r < rows; r++)
        k->head_norm_rope((char*)t.at + size_t(r) * n * k->elem, hd, heads, hd, hd, w.data(), 1e-6f, c.data(), s.data(),
                          y.data());
    });
    rate("silu", rows * wide, [&] { k->silu.mul(t.at, t.at, wide, rows, wide, u.at, wide); });
    rate("its gradient", rows * wide,
         [&] { k->silu.mul_backward(t.at, t.at, wide, x.data(), wide, rows, wide, u.at, v.at, wide, nullptr, 0); });
    rate("log_sum_exp", vocab, [&] { k->log_sum_exp(logits.data(), vocab); });
    rate("softmax_residual", vocab, [&] { k->softmax_residual(logits.data(), vocab, 9, 5, 1, 0, v.at, vocab); });
    rate("round", rows * wide, [&] { k->round_rows(x.data(), wide, rows, wide, 1, u.at, wide); });
    rate("transpose", rows * wide, [&] { k->transpose(x.data(), DType::f32, wide, rows, wide, v.at, rows); });
    rate("pack_transposed", rows * wide, [&] { k->pack_transposed(t.at, type, wide, rows, wide, v.at); });
    rate("transpose_panels", rows * wide, [&] { k->transpose_panels(t.at, rows, wide, 0, wide, 0, rows, v.at); });
    rate("pack", rows * wide, [&] { k->pack(x.data(), DType::f32, wide, rows, wide, v.at); });
    rate("kv_write", rows * hd, [&] {
      for (int r = 0; r < rows; r++) k->over_exact_pages.kv_write(x.data(), x.data(), r % 64, hd, v.at, u.at);
    });
    rate("adamw", rows * wide, [&] {
      k->adamw(x.data(), y.data(), dx.data(), (float*)v.at, rows * wide, {1e-3, 0.9, 0.99, 1e-8, 0.01, 1, 1, 1});
    });
    std::printf("\n");
  }
}

}  // namespace

void bench_family();

void bench() {
  bench_memory();
  for (int tokens : {1, 16, 64}) bench_delta_rule(tokens, 128);
  bench_family();
  is_fast_family = true;
  std::printf("the fast family\n");
  bench_family();
}

void bench_family() {
  for (DType type : {DType::bf16, DType::f32}) {
    bench_gemm(type, 3072, 1024, {1, 8, 16, 64, 512});
    bench_gemm(type, 192, 192, {64, 512, 4096});
    bench_gemm(type, 576, 192, {64, 512, 4096});
    bench_gemm(type, 192, 576, {64, 512, 4096});
    bench_gemm(type, 192, 4096, {192, 576});
    for (KvCache format : {KvCache::exact, KvCache::int8}) {
      bench_attention(type, format, 32, 256, 64);
      bench_attention(type, format, 128, 512, 64);
      bench_attention(type, format, 128, 16384, 2);
    }
    bench_elementwise(type);
  }
}

}  // namespace anneal::cpu::test
