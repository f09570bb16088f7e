#include "workspace.h"

namespace anneal::vulkan {

// Of products with quantised weights.
static int widest_input(const ModelSpec& m) {
  const Widths c = widest(m);
  return std::max({m.hidden, c.attended, c.intermediate});
}
// Also of those of the way back.
static int widest_row(const ModelSpec& m) {
  const Widths c = widest(m);
  return std::max({widest_input(m), c.q, c.kv, *std::max_element(std::begin(c.delta_in), std::end(c.delta_in))});
}

void Scratch::plan(MemoryPlan& plan, const GpuModel& m, int batch_rows, int rank) {
  const Widths c = widest(m.spec);
  const int64_t rows = round_up(batch_rows, 16);
  const auto all = [&](int width, auto&... memories) { (plan.add(memories, rows * m.type.row_bytes(width)), ...); };
  all(m.spec.hidden, normed, branch);
  all(c.q, q);
  all(c.queries, queries);
  all(c.kv, k, v);
  all(c.intermediate, gate, up, act);
  if (c.gated) all(c.attended, attended, gated);
  for (int i = 0; i < kDeltaInputs; i++) all(c.delta_in[i], delta_in[i]);
  plan.add(mixed, rows * 4 * int64_t(c.delta_in[0]));
  plan.add(delta_gates, rows * 8 * int64_t(c.delta_in[kInA - kInQkv]));
  if (!m.spec.quantized.empty()) plan.add(inputs.codes, rows * code_bytes(widest_input(m.spec)));
  if (m.fast) plan.add(inputs.halves, rows * half_bytes(widest_row(m.spec)));
  if (rank > 0)
    for (Memory& memory : z) all(rank, memory);
}

void Scratch::add_key(RecordingKey& key) const {
  for (const Memory* memory : {&normed, &q, &k, &v, &queries, &gate, &up, &act, &branch, &attended, &gated, &mixed,
                               &delta_gates, &inputs.codes, &inputs.halves})
    key.push_back(memory->address());
  for (const Memory& memory : z) key.push_back(memory.address());
  for (const Memory& memory : delta_in) key.push_back(memory.address());
}

LayerActivations unkept_activations(const Scratch& s, uint64_t x) {
  LayerActivations a{};
  a.x_in = a.x_mid = a.x_out = x;
  a.q = s.q.address(), a.k = s.k.address(), a.gate = s.gate.address(), a.up = s.up.address();
  for (int i = 0; i < kDeltaInputs; i++) a.delta_in[i] = s.delta_in[i].address();
  a.attended = a.fed_forward = s.branch.address();
  a.attention = s.attended ? s.attended.address() : a.q;
  return a;
}

int64_t kept_bytes(const ModelSpec& m, ElementType t, const Widths& c) {
  int64_t delta = 0;
  for (int width : c.delta_in) delta += t.row_bytes(width);
  return 4 * int64_t(m.hidden) + t.row_bytes(c.q) + t.row_bytes(c.attended) + t.row_bytes(c.kv) +
         2 * t.row_bytes(c.intermediate) + (c.norms_after ? 2 * t.row_bytes(m.hidden) : 0) + 4 * int64_t(c.heads) +
         delta;
}

}  // namespace anneal::vulkan
