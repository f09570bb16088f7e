// Tokens pass in stretches, whose convolution, norms and gates are made on the way. Backward scans a sequence once more
// to have the state before each stretch, and goes through the stretches from the last; the kernel has the states within
// a stretch. Where stretches end changes no bit.
#include "delta_layer.h"

#include <cmath>

#include "../delta_stretches.h"

namespace anneal::cpu {
namespace {

constexpr int kStretch = 64;  // tokens
// Where stretches of a sequence end: at most `length` tokens after they began, and where another sequence branches off.
std::vector<int> stretches_of(const Batch& batch, int sequence, int length) {
  const Sequence& s = batch.sequences[sequence];
  std::vector<int> branches;
  for (int branch : batch.branches[sequence]) branches.push_back(batch.sequences[branch].position - s.position);
  return backends::stretch_ends(s.rows, length, branches);
}

// Hands out pieces of a worker's memory, one after the other. Without memory it only counts.
class Arena {
 public:
  explicit Arena(float* at = nullptr) : begin_(at) {}
  float* floats(int64_t n) {
    const int64_t from = used_;
    used_ += padded(n);
    most_ = std::max(most_, used_);
    return begin_ ? begin_ + from : nullptr;
  }
  int64_t mark() const { return used_; }
  void back_to(int64_t mark) { used_ = mark; }
  size_t most_bytes() const { return size_t(most_) * sizeof(float); }

 private:
  float* begin_;
  int64_t used_ = 0, most_ = 0;
};

// What tokens of a key head are made into on the way to the scan, or its gradients, in float32.
struct TokenBuffers {
  float *x, *convolved;     // [kernel - 1 + tokens][width] before the convolution, [tokens][width] after it
  float* normed;            // [tokens][2][key_dim], queries and keys
  float *decay, *strength;  // [tokens][group]; the gradient is that of the decay's logarithm
  TokenBuffers(Arena& memory, const DeltaRuleSpec& c, int most) {
    const int width = KeyHeadColumns(c, 0).width, group = c.group();
    x = memory.floats(int64_t(c.kernel - 1 + most) * width);
    convolved = memory.floats(int64_t(most) * width);
    normed = memory.floats(int64_t(most) * 2 * c.key_dim);
    decay = memory.floats(int64_t(most) * group);
    strength = memory.floats(int64_t(most) * group);
  }
};

struct Tokens : TokenBuffers {
  float* out;  // [tokens][group * value_dim]
  Tokens(Arena& memory, const DeltaRuleSpec& c, int most)
      : TokenBuffers(memory, c, most), out(memory.floats(int64_t(most) * c.group() * c.value_dim)) {}
};

struct TokenGradients : TokenBuffers {
  float *a, *b;        // [group], of one token
  float* taps;         // [kernel][width]
  float *rate, *bias;  // [group]
  char* scratch;
  TokenGradients(Arena& memory, const Kernels& k, const DeltaRuleSpec& c, int most) : TokenBuffers(memory, c, most) {
    const int group = c.group();
    a = memory.floats(group), b = memory.floats(group);
    taps = memory.floats(int64_t(c.kernel) * KeyHeadColumns(c, 0).width);
    rate = memory.floats(group), bias = memory.floats(group);
    scratch = reinterpret_cast<char*>(
        memory.floats(int64_t(k.delta_backward_scratch(most, c.key_dim, c.value_dim) / sizeof(float))));
  }
};

class KeyHead {
 public:
  KeyHead(const Model& m, const Batch& batch, int layer, const LayerActivations& a, int head)
      : k_(m.kernels),
        batch_(batch),
        layer_(layer),
        a_(a),
        c_(*m.delta_rule(layer)),
        head_(head),
        columns_(c_, head),
        w_(m.weights->layers[layer].delta),
        state_floats_(delta_state_floats(c_.key_dim, c_.value_dim)) {}

  int64_t states() const { return c_.group() * state_floats_; }

  // From its state in the batch's, or from `state`, which becomes that behind the sequence.
  void forward(int sequence, float* state, const Tokens& t, Arena& memory, const Team& team, int worker) const {
    const Sequence& s = batch_.sequences[sequence];
    const int first = head_ * c_.group() * c_.value_dim, count = c_.group() * c_.value_dim;
    auto branch = batch_.branches[sequence].begin();
    int at = 0;
    for (int end : stretches_of(batch_, sequence, kStretch)) {
      team.preemption_point(worker);
      prepare(sequence, at, end - at, t);
      scan(end - at, t, state);
      for (int i = 0; i < end - at; i++)
        k_.round_rows(t.out + int64_t(i) * count, count, 1, count, 1.0f, a_.attention.at(s.row0 + at + i, first),
                      count);
      at = end;
      for (; branch != batch_.branches[sequence].end() && batch_.sequences[*branch].position == s.position + at;
           ++branch) {
        const int64_t mark = memory.mark();
        float* own = memory.floats(states());
        std::memcpy(own, state, states() * sizeof(float));
        forward(*branch, own, t, memory, team, worker);
        memory.back_to(mark);
      }
    }
    if (s.recurrent >= 0) keep_tail(s);
  }

  // Memory that forward and backward take for a sequence and those that branch off it.
  void count_forward(int sequence, Arena& memory) const {
    const int64_t mark = memory.mark();
    for (int branch : batch_.branches[sequence]) {
      memory.floats(states());
      count_forward(branch, memory);
      memory.back_to(mark);
    }
  }
  void count_backward(int sequence, Arena& memory) const {
    const int64_t mark = memory.mark();
    memory.floats((int64_t(stretches_of(batch_, sequence, stretch_of(sequence)).size()) + 1) * states());
    const int64_t own = memory.mark();
    for (int branch : batch_.branches[sequence]) {
      memory.floats(states());
      count_backward(branch, memory);
      memory.back_to(own);
    }
    memory.back_to(mark);
  }

  // From the state before the sequence to the gradient by it, `d_state`.
  void backward(int sequence, const float* state, float* d_state, const DeltaGradients& d, const Tokens& t,
                const TokenGradients& g, Arena& memory, const Team& team, int worker) const {
    const Sequence& s = batch_.sequences[sequence];
    const std::vector<int> ends = stretches_of(batch_, sequence, stretch_of(sequence));
    const int64_t mark = memory.mark(), size = states();
    float* before = memory.floats((int64_t(ends.size()) + 1) * size);  // each stretch, and behind the last
    std::memcpy(before, state, size * sizeof(float));
    for (size_t i = 0; i < ends.size(); i++) {
      team.preemption_point(worker);
      const int from = i ? ends[i - 1] : 0;
      std::memcpy(before + (i + 1) * size, before + i * size, size * sizeof(float));
      prepare(sequence, from, ends[i] - from, t);
      scan(ends[i] - from, t, before + (i + 1) * size);
    }
    std::memset(d_state, 0, size * sizeof(float));
    const std::vector<int>& branches = batch_.branches[sequence];
    for (size_t i = ends.size(); i-- > 0;) {
      const auto begins_here = [&](int branch) { return batch_.sequences[branch].position == s.position + ends[i]; };
      for (int branch : branches) {
        if (!begins_here(branch)) continue;
        const int64_t own = memory.mark();
        float* by_branch = memory.floats(size);
        backward(branch, before + (i + 1) * size, by_branch, d, t, g, memory, team, worker);
        k_.add(d_state, by_branch, size);
        memory.back_to(own);
      }
      team.preemption_point(worker);
      const int from = i ? ends[i - 1] : 0;
      prepare(sequence, from, ends[i] - from, t);
      stretch_backward(sequence, from, ends[i] - from, before + i * size, d_state, d, t, g);
    }
    memory.back_to(mark);
  }

  int stretch_of(int sequence) const { return backends::backward_stretch(batch_.sequences[sequence].rows); }

 private:
  const Rows& input(int projection) const { return a_.delta_in[projection - kInQkv]; }
  float* kept(const Sequence& s) const { return batch_.recurrent->of(s.recurrent, layer_, head_); }

  void widen(int row, float* to) const {
    for (const auto& part : columns_.parts) {
      k_.widen_rows(input(kInQkv).at(row, part.from), part.count, 1, part.count, to, part.count);
      to += part.count;
    }
  }

  // Convolution, norms and gates of tokens [from, from + count) of a sequence.
  void prepare(int sequence, int from, int count, const Tokens& t) const {
    const Sequence& s = batch_.sequences[sequence];
    const int width = columns_.width, key = c_.key_dim, group = c_.group(), lead = c_.kernel - 1;
    for (int j = 0; j < lead; j++) {
      const int position = s.position + from - lead + j;
      float* to = t.x + int64_t(j) * width;
      if (position < 0)
        std::memset(to, 0, width * sizeof(float));
      else if (const Sequence& root = batch_.root_of(sequence); position < root.position && root.recurrent >= 0)
        std::memcpy(to, tail(root, position - root.position + lead), width * sizeof(float));
      else
        widen(batch_.row_of(sequence, position), to);
    }
    for (int i = 0; i < count; i++) widen(s.row0 + from + i, t.x + int64_t(lead + i) * width);
    k_.short_conv(t.x, width, taps(), width, c_.kernel, count, width, t.convolved, width);
    for (int i = 0; i < count; i++) {
      const float* x = t.convolved + int64_t(i) * width;
      float* normed = t.normed + int64_t(i) * 2 * key;
      k_.l2_norm(x, key, query_scale(), normed);
      k_.l2_norm(x + key, key, 1.0f, normed + key);
      const int row = s.row0 + from + i, head = head_ * group;
      k_.delta_gates(input(kInA).at(row, head), input(kInB).at(row, head), w_.rate.data() + head,
                     w_.step_bias.data() + head, group, t.decay + i * group, t.strength + i * group);
    }
  }

  void scan(int count, const Tokens& t, float* state) const {
    const int width = columns_.width, key = c_.key_dim, value = c_.value_dim, group = c_.group();
    for (int j = 0; j < group; j++)
      k_.delta_rule({count, key, value, t.normed, t.normed + key, 2 * key, t.convolved + 2 * key + j * value, width,
                     t.decay + j, t.strength + j, group, state + j * state_floats_, t.out + j * value,
                     int64_t(group) * value});
  }

  // The last inputs of the convolution, of those before the sequence the j-th.
  float* tail(const Sequence& s, int j) const { return kept(s) + states() + int64_t(j) * columns_.width; }
  void keep_tail(const Sequence& s) const {
    const int lead = c_.kernel - 1;
    for (int j = 0; j < lead; j++)
      if (const int row = s.rows - lead + j; row >= 0)
        widen(s.row0 + row, tail(s, j));
      else if (s.position + row >= 0)
        std::memcpy(tail(s, j), tail(s, s.rows + j), columns_.width * sizeof(float));
      else
        std::memset(tail(s, j), 0, columns_.width * sizeof(float));
  }

  void stretch_backward(int sequence, int from, int count, const float* state, float* d_state, const DeltaGradients& d,
                        const Tokens& t, const TokenGradients& g) const {
    const Sequence& s = batch_.sequences[sequence];
    const int width = columns_.width, key = c_.key_dim, value = c_.value_dim, group = c_.group(), lead = c_.kernel - 1,
              row0 = s.row0 + from, head = head_ * group;
    std::memset(g.normed, 0, size_t(count) * 2 * key * sizeof(float));
    std::memset(g.x, 0, size_t(lead + count) * width * sizeof(float));
    for (int j = 0; j < group; j++) {
      DeltaBackwardTask task{};
      task.tokens = count, task.key_dim = key, task.value_dim = value;
      task.q = t.normed, task.k = t.normed + key, task.ldk = 2 * key;
      task.v = t.convolved + 2 * key + j * value, task.ldv = width;
      task.decay = t.decay + j, task.strength = t.strength + j, task.ldg = group;
      task.state = state + j * state_floats_, task.dstate = d_state + j * state_floats_;
      task.dout = d.out.at(row0, int64_t(head + j) * value), task.ldo = d.out.ld;
      task.dq = g.normed, task.dk = g.normed + key, task.dv = g.convolved + 2 * key + j * value;
      task.d_log_decay = g.decay + j, task.d_strength = g.strength + j, task.scratch = g.scratch;
      k_.delta_rule_backward(task);
    }
    for (int i = 0; i < count; i++) {
      const float *x = t.convolved + int64_t(i) * width, *by_normed = g.normed + int64_t(i) * 2 * key;
      float* dx = g.convolved + int64_t(i) * width;
      k_.l2_norm_backward(x, key, query_scale(), by_normed, dx);
      k_.l2_norm_backward(x + key, key, 1.0f, by_normed + key, dx + key);
      k_.delta_gates_backward(input(kInA).at(row0 + i, head), input(kInB).at(row0 + i, head), w_.rate.data() + head,
                              w_.step_bias.data() + head, group, g.decay + i * group, g.strength + i * group, g.a, g.b,
                              d.decay ? g.rate : nullptr, d.step_bias ? g.bias : nullptr);
      k_.round_rows(g.a, group, 1, group, 1.0f, d.a.at(row0 + i, head), group);
      k_.round_rows(g.b, group, 1, group, 1.0f, d.b.at(row0 + i, head), group);
    }
    k_.short_conv_backward(t.x, width, taps(), width, c_.kernel, count, width, g.convolved, width, g.x, width,
                           d.convolution ? g.taps : nullptr);
    for (int i = 0; i < lead + count; i++) {
      const int position = s.position + from - lead + i;
      if (position < 0) continue;
      const int row = batch_.row_of(sequence, position);
      const float* dx = g.x + int64_t(i) * width;
      for (const auto& part : columns_.parts) {
        k_.add(d.qkv.at(row, part.from), dx, part.count);
        dx += part.count;
      }
    }
  }

  const float* taps() const { return w_.taps.data() + int64_t(head_) * c_.kernel * columns_.width; }
  float query_scale() const { return 1.0f / std::sqrt(float(c_.key_dim)); }

  const Kernels& k_;
  const Batch& batch_;
  const int layer_;
  const LayerActivations& a_;
  const DeltaRuleSpec& c_;
  const int head_;
  const KeyHeadColumns columns_;
  const DeltaWeights& w_;
  const int64_t state_floats_;
};

// The most of bytes(a key head of each delta-rule layer's shape), for every worker: once, as each growth of a buffer is
// counted by itself.
template <class F> void reserve_most(const Model& m, const Batch& batch, Workspace& ws, F&& bytes) {
  size_t most = 0;
  for (int l = 0; l < m.layers(); l++)
    if (m.delta_rule(l)) most = std::max(most, size_t(bytes(KeyHead(m, batch, l, {}, 0), *m.delta_rule(l))));
  for (WorkerScratch& w : ws.workers) w.delta.reserve(most);
}

int longest_stretch(const Batch& batch) {
  int most = 0;
  for (const Sequence& s : batch.sequences) most = std::max(most, std::min(s.rows, backends::backward_stretch(s.rows)));
  return most;
}

}  // namespace

void reserve_delta_forward(const Model& m, const Batch& batch, Workspace& ws) {
  reserve_most(m, batch, ws, [&](const KeyHead& head, const DeltaRuleSpec& c) {
    Arena memory;
    Tokens(memory, c, kStretch);
    memory.floats(head.states());
    for (int root : batch.roots) head.count_forward(root, memory);
    return memory.most_bytes();
  });
}

void reserve_delta_backward(const Model& m, const Batch& batch, Workspace& ws) {
  reserve_most(m, batch, ws, [&](const KeyHead& head, const DeltaRuleSpec& c) {
    Arena memory;
    const int most = longest_stretch(batch);
    Tokens(memory, c, most);
    TokenGradients(memory, m.kernels, c, most);
    memory.floats(2 * head.states());
    for (int root : batch.roots) head.count_backward(root, memory);
    return memory.most_bytes();
  });
}

void delta_forward(Team& team, const Model& m, const Batch& batch, int layer, const LayerActivations& a,
                   Workspace& ws) {
  const DeltaRuleSpec& c = *m.delta_rule(layer);
  team.each(int64_t(batch.roots.size()) * c.key_heads, [&](int64_t chunk, int worker) {
    const int root = batch.roots[chunk / c.key_heads], h = int(chunk % c.key_heads);
    const KeyHead head(m, batch, layer, a, h);
    const Sequence& s = batch.sequences[root];
    Arena memory(ws.workers[worker].delta.floats());
    const Tokens t(memory, c, kStretch);
    float* state = s.recurrent >= 0 ? batch.recurrent->of(s.recurrent, layer, h) : memory.floats(head.states());
    if (s.position == 0) std::memset(state, 0, head.states() * sizeof(float));
    head.forward(root, state, t, memory, team, worker);
  });
}

void delta_backward(Team& team, const Model& m, const Batch& batch, int layer, const LayerActivations& a,
                    const DeltaGradients& d, Workspace& ws) {
  const DeltaRuleSpec& c = *m.delta_rule(layer);
  const int group = c.group();
  // Gradients of weights have one owner for all sequences, who adds them in order.
  const bool weights = bool(d.convolution);
  const int64_t owners = weights ? 1 : int64_t(batch.roots.size());
  team.each(owners * c.key_heads, [&](int64_t chunk, int worker) {
    const int h = int(chunk % c.key_heads);
    const KeyHead head(m, batch, layer, a, h);
    const KeyHeadColumns columns(c, h);
    Arena memory(ws.workers[worker].delta.floats());
    const int most = longest_stretch(batch);
    const Tokens t(memory, c, most);
    const TokenGradients g(memory, m.kernels, c, most);
    float *zeros = memory.floats(head.states()), *d_state = memory.floats(head.states());
    std::memset(zeros, 0, head.states() * sizeof(float));
    std::memset(g.taps, 0, size_t(c.kernel) * columns.width * sizeof(float));
    for (float* sums : {g.rate, g.bias}) std::memset(sums, 0, group * sizeof(float));
    for (int64_t i = weights ? 0 : chunk / c.key_heads, end = weights ? int64_t(batch.roots.size()) : i + 1; i < end;
         i++)
      head.backward(batch.roots[i], zeros, d_state, d, t, g, memory, team, worker);
    if (!weights) return;
    for (int j = 0; j < c.kernel; j++) {
      const float* from = g.taps + int64_t(j) * columns.width;
      for (const auto& part : columns.parts)
        for (int i = 0; i < part.count; i++) *d.convolution.at(part.from + i, j) += *from++;
    }
    m.kernels.add(d.decay + h * group, g.rate, group);
    m.kernels.add(d.step_bias + h * group, g.bias, group);
  });
}

}  // namespace anneal::cpu
