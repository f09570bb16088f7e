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

template <class S, class F> void Scratch::each(S& s, const GpuModel& m, int rows, int rank, F&& f) {
  const Widths c = widest(m.spec);
  const auto all = [&](int width, auto&... memories) { (f(memories, rows * m.type.row_bytes(width)), ...); };
  all(m.spec.hidden, s.normed, s.branch);
  all(c.q, s.q);
  all(c.queries, s.queries);
  all(c.kv, s.k, s.v);
  all(c.intermediate, s.gate, s.up, s.act);
  if (c.gated) all(c.attended, s.attended, s.gated);
  for (int i = 0; i < kDeltaInputs; i++) all(c.delta_in[i], s.delta_in[i]);
  f(s.mixed, rows * 4 * int64_t(c.delta_in[0]));
  f(s.delta_gates, rows * 8 * int64_t(c.delta_in[kInA - kInQkv]));
  if (!m.spec.quantized.empty()) f(s.inputs.codes, rows * code_bytes(widest_input(m.spec)));
  if (m.fast) f(s.inputs.halves, rows * half_bytes(widest_row(m.spec)));
  if (rank > 0)
    for (auto& memory : s.z) all(rank, memory);
}

void Scratch::reserve(const GpuModel& m, int rows, int rank) {
  rows = std::max(rows_, int(round_up(rows, 16))), rank = std::max(rank_, rank);
  rows_ = rank_ = 0;
  each(*this, m, rows, rank, [&](Memory& memory, int64_t bytes) {
    if (memory.bytes() >= bytes) return;
    memory = {};
    memory = Memory(m.gpu, bytes);
  });
  rows_ = rows, rank_ = rank;
}

int64_t Scratch::missing(const GpuModel& m, int rows, int rank) const {
  int64_t missing = 0;
  each(*this, m, std::max(rows_, int(round_up(rows, 16))), std::max(rank_, rank),
       [&](const Memory& memory, int64_t bytes) { missing += std::max<int64_t>(0, bytes - memory.bytes()); });
  return missing;
}

void Scratch::add_key(RecordingKey& key) const {
  for (const Memory* memory : {&normed, &q, &k, &v, &queries, &gate, &up, &act, &branch, &attended, &gated, &mixed,
                               &delta_gates, &inputs.codes, &inputs.halves})
    key.push_back(memory->address());
  for (const Memory& memory : z) key.push_back(memory.address());
  for (const Memory& memory : delta_in) key.push_back(memory.address());
}

int64_t Scratch::bytes_per_row(const GpuModel& model) {
  const ModelSpec& m = model.spec;
  const ElementType t = model.type;
  const Widths c = widest(m);
  const int64_t codes = m.quantized.empty() ? 0 : code_bytes(widest_input(m)),
                halves = model.fast ? half_bytes(widest_row(m)) : 0;
  int64_t delta = 4 * int64_t(c.delta_in[0]) + 8 * int64_t(c.delta_in[kInA - kInQkv]);
  for (int width : c.delta_in) delta += t.row_bytes(width);
  return codes + halves + 2 * t.row_bytes(m.hidden) + t.row_bytes(c.q) + t.row_bytes(c.queries) +
         2 * t.row_bytes(c.kv) + 3 * t.row_bytes(c.intermediate) + (c.gated ? 2 * t.row_bytes(c.attended) : 0) + delta;
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
