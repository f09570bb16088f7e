#include "delta_layer.h"

#include <cmath>

namespace anneal::vulkan {
namespace {

constexpr int64_t kWithinBytes = int64_t(256) << 20;  // of stretches under way, where one sequence does not take more

int64_t state_bytes(const DeltaRuleSpec& d) { return int64_t(d.value_width()) * d.key_dim * 4; }
int64_t tail_bytes(const DeltaRuleSpec& d) { return int64_t(d.kernel - 1) * d.conv_width() * 4; }
// As shaders/delta_scan_backward.comp has it, of a sequence.
int64_t within_bytes(const DeltaRuleSpec& d, int longest) {
  const int64_t columns = round_up(d.value_dim, 16);
  return d.value_heads * columns * ((longest + 1) * int64_t(d.key_dim) + 2 * longest) * 4;
}

// Columns of a state in a workgroup's shared memory, as shaders/delta_scan.comp has it.
int columns_of(const DeltaRuleSpec& d) { return d.key_dim <= 128 ? 32 : d.key_dim <= 256 ? 16 : 8; }

std::vector<uint32_t> shape_of(const DeltaRuleSpec& d) {
  return {uint32_t(d.key_heads), uint32_t(d.value_heads), uint32_t(d.key_dim),
          uint32_t(d.value_dim), uint32_t(d.kernel),      uint32_t(columns_of(d))};
}

template <class F> void each_rule(const ModelSpec& m, F&& f) {
  for (const LayerSpec& layer : m.layers)
    if (layer.delta_rule) f(*layer.delta_rule);
}

struct DeltaLayer {
  Commands& commands;
  const GpuModel& m;
  const DeviceBatch& b;
  const DeltaLists& lists;
  int layer;
  const LayerActivations& a;
  const Scratch& s;
  const DeltaRuleSpec& d = *m.spec.layers[size_t(layer)].delta_rule;
  const vulkan::Layer& w = m.layer(layer);
  const float query_scale = 1.0f / std::sqrt(float(d.key_dim));

  void prepare(uint64_t tails) const {
    const struct {
      uint64_t qkv, b, a, taps, rates, tails, before, mixed, gates;
      int32_t ldx, ldg, lead;
      float query_scale;
    } parameters{a.delta_in[0],
                 a.delta_in[kInB - kInQkv],
                 a.delta_in[kInA - kInQkv],
                 w.taps,
                 w.rates,
                 tails,
                 lists.before,
                 s.mixed.address(),
                 s.delta_gates.address(),
                 m.type.ld(d.conv_width()),
                 m.type.ld(d.value_heads),
                 lists.lead,
                 query_scale};
    commands.dispatch(m.pipeline(Shader::kDeltaPrepare, shape_of(d)), parameters, b.rows, d.key_heads);
    commands.barrier();
  }

  // heads 0: only states are wanted.
  void scan(uint64_t states, uint64_t heads) const {
    for (const DeltaLevel& level : lists.levels) {
      const struct {
        uint64_t mixed, gates, scans, saves, states, heads;
        int32_t ldo, padding;
      } parameters{s.mixed.address(),
                   s.delta_gates.address(),
                   lists.scans + uint64_t(level.first) * sizeof(DeltaScan),
                   lists.saves,
                   states,
                   heads,
                   m.type.ld(d.value_width()),
                   0};
      const int columns = columns_of(d);
      commands.dispatch(m.pipeline(Shader::kDeltaScan, shape_of(d)), parameters, level.count, d.value_heads,
                        (d.value_dim + columns - 1) / columns);
      commands.barrier();
    }
  }

  void keep_tails(uint64_t tails) const {
    const struct {
      uint64_t qkv, tails, scans;
      int32_t ld, padding;
    } parameters{a.delta_in[0], tails, lists.scans, m.type.ld(d.conv_width()), 0};
    commands.dispatch(m.pipeline(Shader::kDeltaTail, shape_of(d)), parameters, lists.levels.front().count,
                      (d.conv_width() + 63) / 64);
    commands.barrier();
  }
};

}  // namespace

RecurrentStates::RecurrentStates(const GpuModel& m, int count) : count_(count) {
  for (const LayerSpec& layer : m.spec.layers) {
    Memories& own = layers_.emplace_back();
    if (!layer.delta_rule) continue;
    own.states = Memory(m.gpu, count * state_bytes(*layer.delta_rule), Memory::Place::device, Memory::Parts::addressed);
    if (const int64_t bytes = tail_bytes(*layer.delta_rule)) own.tails = Memory(m.gpu, count * bytes);
  }
}

void RecurrentStates::plan_passing(MemoryPlan& plan, const ModelSpec& m, int count) {
  count_ = count;
  plan.add(passing_, count * largest_bytes(m), Memory::Place::device, Memory::Parts::addressed);
}

int64_t RecurrentStates::bytes(const ModelSpec& m) {
  int64_t sum = 0;
  each_rule(m, [&](const DeltaRuleSpec& d) { sum += state_bytes(d) + tail_bytes(d); });
  return sum;
}

int64_t RecurrentStates::largest_bytes(const ModelSpec& m) {
  int64_t most = 0;
  each_rule(m, [&](const DeltaRuleSpec& d) { most = std::max(most, state_bytes(d)); });
  return most;
}

RecurrentStates::OfLayer RecurrentStates::of(int layer) const {
  if (layers_.empty()) return {passing_.address(), 0};
  return {layers_[size_t(layer)].states.address(), layers_[size_t(layer)].tails.address()};
}

void RecurrentStates::copy(Commands& commands, int from, int to) const {
  for (const Memories& layer : layers_)
    for (const Memory* memory : {&layer.states, &layer.tails}) {
      const int64_t bytes = memory->bytes() / count_;
      commands.copy(*memory, from * bytes, *memory, to * bytes, bytes);
    }
}

void record_delta_forward(Commands& commands, const GpuModel& m, const DeviceBatch& b,
                          const RecurrentStates::OfLayer& states, int layer, const LayerActivations& a,
                          const Scratch& s) {
  const DeltaLayer delta{commands, m, b, b.delta, layer, a, s};
  delta.prepare(states.tails);
  delta.scan(states.states, a.attention);
  if (states.tails) delta.keep_tails(states.tails);
}

void DeltaMemory::plan(MemoryPlan& memory, const GpuModel& m, int rows, const DeltaPlan& plan) {
  int64_t most_within = 0, mixed = 0, keys = 0, gates = 0;
  each_rule(m.spec, [&](const DeltaRuleSpec& d) {
    most_within = std::max(most_within, within_bytes(d, plan.longest));
    mixed = std::max<int64_t>(mixed, d.conv_width());
    keys = std::max<int64_t>(keys, int64_t(d.value_heads) * 2 * d.key_dim);
    gates = std::max<int64_t>(gates, 2 * d.value_heads);
  });
  int64_t most = 1;
  for (const DeltaLevel& level : plan.levels_back) most = std::max<int64_t>(most, level.count);
  flight = int(std::clamp<int64_t>(kWithinBytes / std::max<int64_t>(most_within, 1), 1, most));
  const int64_t state = RecurrentStates::largest_bytes(m.spec);
  memory.add(states, plan.states * state, Memory::Place::device, Memory::Parts::addressed);
  memory.add(gradients, int64_t(plan.sequences.size()) * state, Memory::Place::device, Memory::Parts::addressed);
  memory.add(within, flight * most_within);
  memory.add(d_mixed, rows * mixed * 4);
  memory.add(d_keys, rows * keys * 4);
  memory.add(d_gates, rows * gates * 4);
}

void record_delta_backward(Commands& commands, const GpuModel& m, const DeviceBatch& b, const DeltaListsBack& lists,
                           int layer, const LayerActivations& a, const DeltaGradients& d, const Scratch& s,
                           const DeltaMemory& mem) {
  const DeltaLayer delta{commands, m, b, lists, layer, a, s};
  const DeltaRuleSpec& c = delta.d;
  const std::vector<uint32_t> shape = shape_of(c);
  delta.prepare(0);
  delta.scan(mem.states.address(), 0);
  for (const DeltaLevel& level : lists.levels_back)
    for (int from = 0; from < level.count; from += mem.flight) {
      const struct {
        uint64_t mixed, gates, d_heads, sequences, stretches, adds, states, gradients, within, d_mixed, d_keys, d_gates;
        int32_t longest, padding;
      } scan{s.mixed.address(),
             s.delta_gates.address(),
             d.d_heads,
             lists.sequences + uint64_t(level.first + from) * sizeof(DeltaSequence),
             lists.stretches,
             lists.adds,
             mem.states.address(),
             mem.gradients.address(),
             mem.within.address(),
             mem.d_mixed.address(),
             mem.d_keys.address(),
             mem.d_gates.address(),
             lists.longest,
             0};
      commands.dispatch(m.pipeline(Shader::kDeltaScanBackward, shape), scan, std::min(mem.flight, level.count - from),
                        c.value_heads);
      commands.barrier();
    }
  const struct {
    uint64_t qkv, b, a, taps, rates, before, d_keys, d_gates, d_mixed, d_b, d_a;
    int32_t ldx, ldg, lead;
    float query_scale;
  } prepare{a.delta_in[0],
            a.delta_in[kInB - kInQkv],
            a.delta_in[kInA - kInQkv],
            delta.w.taps,
            delta.w.rates,
            lists.before,
            mem.d_keys.address(),
            mem.d_gates.address(),
            mem.d_mixed.address(),
            d.d_b,
            d.d_a,
            m.type.ld(c.conv_width()),
            m.type.ld(c.value_heads),
            lists.lead,
            delta.query_scale};
  commands.dispatch(m.pipeline(Shader::kDeltaPrepareBackward, shape), prepare, b.rows, c.key_heads);
  commands.barrier();
  const struct {
    uint64_t d_mixed, taps, readers, d_qkv;
    int32_t rows, ld;
  } convolution{mem.d_mixed.address(), delta.w.taps, lists.readers, d.d_qkv, b.rows, m.type.ld(c.conv_width())};
  commands.dispatch(m.pipeline(Shader::kDeltaConvolutionBackward, shape), convolution, b.rows,
                    (c.conv_width() + 63) / 64);
  commands.barrier();
}

}  // namespace anneal::vulkan
