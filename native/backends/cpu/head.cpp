// The gradients of one log-probability and of one entropy with respect to the last hidden state do not depend on the
// loss: they are made here, in the pass that has the logits, and scaled later. Logits never exist for more than a block
// of rows per worker.
#include "head.h"

namespace anneal::cpu {
namespace {

// Columns of a gradient that are projected at once.
constexpr int kHeadStretch = kBackwardReduction * 16;

struct HeadPass {
  Team& all;
  const Model& m;
  const Matrix& x;
  const std::vector<Entry>& entries;
  std::vector<WorkerScratch>& workers;
  HeadMemory& mem;
  const Kernels& k = m.kernels;
  const Linear& head = m.weights->head();

  template <class F> void each_block(int from, int to, F&& f) {
    const int per = mem.block_rows;
    if (mem.by_rows) {
      all.each((to - from + per - 1) / per, [&](int64_t chunk, int worker) {
        const int row = from + int(chunk) * per;
        Team one = all.one(worker);
        f(one, mem.blocks[worker], row, std::min(per, to - row));
      });
    } else {
      for (int row = from; row < to && all.ok(); row += per) f(all, mem.blocks[0], row, std::min(per, to - row));
    }
  }

  void logits(Team& team, HeadMemory::Block& b, int row0, int rows) {
    each_rows(team, rows, m.spec.hidden, [&](int row, int n, int) {
      for (int i = row; i < row + n; i++)
        k.rmsnorm(x.at(entries[row0 + i].hidden), x.ld, m.weights->final_norm.data(), m.spec.rms_eps, 1, m.spec.hidden,
                  b.normed.at(i), b.normed.ld);
    });
    const Linear* const weights[] = {&head};
    const Input input = with_codes(team, k, b.normed, rows, weights, 1, b.codes);
    const Split split = split_product(team, k, rows, panels_of(head.n));
    team.each(split.chunks(), [&](int64_t chunk, int) { head_tile(m, input, tile_of(split, chunk), b.logits); });
  }

  // Row i of the block as its entry's temperature has it; called once.
  const float* tempered(HeadMemory::Block& b, int i, const Entry& entry) {
    float* logits = b.logits.at(i);
    if (entry.inverse_temperature != 1) k.scale(logits, head.n, entry.inverse_temperature, logits);
    return logits;
  }

  // Of a gradient with respect to an entry's tempered logits, for that with respect to the head's product.
  float gradient_scale(const Entry& entry) const { return entry.inverse_temperature * float(m.spec.logit_scale); }

  // Of an entry's tempered logits.
  float cap(const Entry& entry) const { return entry.inverse_temperature * float(m.spec.logit_soft_cap); }

  // out[row0 + i] = block's d_logits[i] . head.
  void project(Team& team, HeadMemory::Block& b, int row0, int rows, const Matrix& out) {
    const BackTerm term{b.d_logits, &head, mem.by_rows ? mem.transposed.data() : nullptr, {}};
    // A large vocabulary in several loops, so that no chunk takes long.
    const int stretch = mem.by_rows ? head.n : kHeadStretch;
    for (int from = 0; from < head.n && team.ok(); from += stretch)
      back_product(team, k, workers,
                   {rows, head.k, &term, 1, b.gradient_codes, out.from(row0), from, from + stretch, from > 0},
                   [](auto...) {});
  }
};

// Of a block's logits: every block reads the head twice, and transposes it. Of a window's transposed gradients.
constexpr int64_t kLogitBytes = int64_t(160) << 20, kWindowBytes = int64_t(96) << 20;
constexpr int kMaxBlockRows = 512;
// Of a head that stays in the caches of cores.
constexpr int64_t kCachedBytes = int64_t(4) << 20;

}  // namespace

void head_tile(const Model& m, const Input& normed, const Tile& t, const Matrix& logits) {
  const Kernels& k = m.kernels;
  const Linear& head = m.weights->head();
  const int64_t col = int64_t(t.panel) * kLanes;
  multiply(k, head, normed, t, logits.at(t.row, col), logits.ld, false);
  const float scale = float(m.spec.logit_scale), cap = float(m.spec.logit_soft_cap);
  const int cols = t.panels * kLanes;
  for (int i = t.row; i < t.row + t.rows; i++) {
    if (scale != 1) k.scale(logits.at(i, col), cols, scale, logits.at(i, col));
    if (cap > 0) k.soft_cap(logits.at(i, col), cols, cap);
  }
}

void HeadMemory::configure(const Model& m, int entries, int workers, HeadGradients wanted) {
  const Kernels& k = m.kernels;
  const Linear& head = m.weights->head();
  const int64_t bytes = panels_of(head.n) * panel_bytes(k, head.k);
  by_rows = workers > 1 && bytes <= kCachedBytes;
  if (by_rows) {
    block_rows = 64;
  } else {
    // As few blocks as the memory allows, of nearly equal height.
    const int most = int(std::clamp<int64_t>(kLogitBytes / (padded(head.n) * 4), kFastDepth, kMaxBlockRows)) /
                     kFastDepth * kFastDepth;
    const int count = std::max(1, (entries + most - 1) / most);
    block_rows = std::max(kFastDepth, round_up((entries + count - 1) / count, kFastDepth));
  }
  blocks.resize(std::max<size_t>(blocks.size(), by_rows ? workers : 1));
  for (Block& b : blocks) {
    const int rows = std::min(block_rows, std::max(entries, 1));
    b.normed.size(rows, head.k, k);
    if (head.takes_codes()) b.codes.size(rows, code_row_bytes(head.format, head.k));
    b.logits.size(rows, head.n);
    if (wanted.logprob)
      b.gradient_codes.size(rows, gradient_code_bytes_of(k, head, by_rows ? head.n : std::min(head.n, kHeadStretch)));
    if (wanted.entropy) b.second_gradient.size(rows, head.n, k);
    b.d_logits = wanted.entropy ? Rows(b.second_gradient)
                                : Rows{reinterpret_cast<char*>(b.logits.data),
                                       b.logits.ld * int64_t(sizeof(float)) / k.elem, k.elem};
  }
  if (wanted.logprob && by_rows) transposed.reserve(panels_of(head.k) * back_panel_bytes(k, head, head.n));
  if (wanted.weight) {
    window_blocks = int(std::max<int64_t>(1, kWindowBytes / (padded(head.n) * block_rows * k.elem)));
    const int count = std::min(window_blocks, (entries + block_rows - 1) / block_rows);
    left.size(k, head.n, block_rows, count);
    right.size(k, head.k, block_rows, count);
  }
}

void head_forward(Team& team, const Model& m, const Matrix& x, const std::vector<Entry>& entries, float* logprobs,
                  float* entropies, const Units& units, std::vector<WorkerScratch>& workers, HeadMemory& mem) {
  HeadPass pass{team, m, x, entries, workers, mem};
  const Kernels& k = m.kernels;
  const Linear& head = pass.head;
  if (units.logprob && mem.by_rows) transpose_weight(team, k, head, mem.transposed.data());
  pass.each_block(0, int(entries.size()), [&](Team& t, HeadMemory::Block& b, int row0, int rows) {
    pass.logits(t, b, row0, rows);
    each_rows(t, rows, head.n, [&](int row, int n, int) {
      for (int i = row; i < row + n; i++) {
        const int e = row0 + i, target = entries[e].target;
        const float* logits = pass.tempered(b, i, entries[e]);
        const float lse = k.log_sum_exp(logits, head.n);
        logprobs[e] = logits[target] - lse;
        entropies[e] = units.logprob ? k.softmax_residual(logits, head.n, lse, target, pass.gradient_scale(entries[e]),
                                                          pass.cap(entries[e]), b.d_logits.at(i), padded(head.n))
                                     : k.entropy(logits, head.n, lse);
      }
    });
    if (units.logprob) pass.project(t, b, row0, rows, units.logprob);
    if (!units.entropy) return;
    each_rows(t, rows, head.n, [&](int row, int n, int) {
      for (int i = row; i < row + n; i++) {
        const float* logits = b.logits.at(i);
        const int e = row0 + i;
        k.policy_residual(logits, head.n, k.log_sum_exp(logits, head.n), entropies[e], entries[e].target, 0,
                          pass.gradient_scale(entries[e]), pass.cap(entries[e]), b.d_logits.at(i), padded(head.n));
      }
    });
    pass.project(t, b, row0, rows, units.entropy);
  });
}

void head_weight_gradient(Team& team, const Model& m, const Matrix& x, const std::vector<Entry>& entries,
                          const HeadGradient& d, const Matrix& out, std::vector<WorkerScratch>& workers,
                          HeadMemory& mem) {
  HeadPass pass{team, m, x, entries, workers, mem};
  const Kernels& k = m.kernels;
  const Linear& head = pass.head;
  const int window = mem.window_blocks * mem.block_rows;
  for (int from = 0; from < int(entries.size()) && team.ok(); from += window) {
    const int to = std::min(int(entries.size()), from + window);
    pass.each_block(from, to, [&](Team& t, HeadMemory::Block& b, int row0, int rows) {
      pass.logits(t, b, row0, rows);
      each_rows(t, rows, head.n, [&](int row, int n, int) {
        for (int i = row; i < row + n; i++) {
          const int e = row0 + i;
          const float* logits = pass.tempered(b, i, entries[e]);
          const float lse = k.log_sum_exp(logits, head.n), scale = pass.gradient_scale(entries[e]);
          if (d.by_entropy)
            k.policy_residual(logits, head.n, lse, k.entropy(logits, head.n, lse), entries[e].target,
                              scale * d.by_logprob[e], scale * d.by_entropy[e], pass.cap(entries[e]), b.d_logits.at(i),
                              padded(head.n));
          else
            k.softmax_residual(logits, head.n, lse, entries[e].target, scale * d.by_logprob[e], pass.cap(entries[e]),
                               b.d_logits.at(i), padded(head.n));
        }
      });
      const int block = (row0 - from) / mem.block_rows;
      constexpr int kColumns = 1024;
      t.each((head.n + kColumns - 1) / kColumns, [&](int64_t chunk, int) {
        const int col = int(chunk) * kColumns;
        k.transpose(b.d_logits.at(0, col), k.type, b.d_logits.ld, rows, std::min(kColumns, head.n - col),
                    mem.left.block(block) + size_t(col) * mem.block_rows * k.elem, mem.block_rows);
      });
      k.pack_transposed(b.normed.data, k.type, b.normed.ld, rows, head.k, mem.right.block(block));
    });
    sum_over_tokens(team, k, {{&mem.left, &mem.right, head.n, head.k, out}}, to - from, mem.block_rows, workers);
  }
}

}  // namespace anneal::cpu
