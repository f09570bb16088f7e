#include "batch.h"

namespace anneal::cpu {

Widths widths_of(const LayerSpec& l) {
  Widths w;
  w.intermediate = l.feed_forward.intermediate;
  w.norms_after = l.norms == NormPlacement::before_and_after;
  if (l.delta_rule) {
    const DeltaRuleSpec& d = *l.delta_rule;
    w.attended = d.value_width(), w.gated = true;
    w.delta_in[kInQkv - kInQkv] = d.conv_width(), w.delta_in[kInZ - kInQkv] = d.value_width();
    w.delta_in[kInB - kInQkv] = w.delta_in[kInA - kInQkv] = d.value_heads;
    return w;
  }
  const AttentionSpec& a = l.attention;
  w.attended = a.q_width(), w.gated = a.output_gate;
  w.q = a.heads * a.q_stride(), w.kv = a.kv_width();
  w.heads = a.heads, w.head_dim = a.head_dim;
  w.q_floats = a.heads * padded(a.head_dim), w.kv_floats = a.kv_heads * padded(a.head_dim);
  w.qk_norm = a.qk_norm;
  return w;
}

Model::Model(const ModelSpec& m, const Kernels& k, std::unique_ptr<Weights> w)
    : spec(m), kernels(k), weights(std::move(w)) {
  std::vector<const AttentionSpec*> known;
  for (size_t layer = 0; layer < m.layers.size(); layer++) {
    const Widths own = widths_of(m.layers[layer]);
    for (int Widths::*width :
         {&Widths::attended, &Widths::q, &Widths::kv, &Widths::intermediate, &Widths::heads, &Widths::head_dim})
      widest_.*width = std::max(widest_.*width, own.*width);
    for (int i = 0; i < kDeltaInputs; i++) widest_.delta_in[i] = std::max(widest_.delta_in[i], own.delta_in[i]);
    widest_.q_floats = std::max(widest_.q_floats, own.q_floats);
    widest_.kv_floats = std::max(widest_.kv_floats, own.kv_floats);
    widest_.qk_norm |= own.qk_norm;
    widest_.norms_after |= own.norms_after;
    widest_.gated |= own.gated;

    int64_t bytes = 0;
    for (const Linear& linear : weights->layers[layer].projections) {
      bytes += panels_of(linear.n) * panel_bytes(k, linear.k);
      if (linear.quantized()) code_groups_ = std::max(code_groups_, linear.k / kCodeGroup);
    }
    layer_bytes_ = std::max(layer_bytes_, bytes);

    rope_of_.push_back(-1), scales_.push_back(0);
    if (m.layers[layer].delta_rule) continue;
    const AttentionSpec& a = m.layers[layer].attention;
    const auto same = std::find_if(known.begin(), known.end(), [&](const AttentionSpec* other) {
      return other->rope == a.rope && other->rotary() == a.rotary();
    });
    rope_of_.back() = int(same - known.begin());
    if (same == known.end()) {
      known.push_back(&a);
      ropes_.emplace_back(a.rope, a.rotary(), m.max_positions);
    }
    scales_.back() = a.score_scale();
    if (std::find(groups_.begin(), groups_.end(), a.group()) == groups_.end()) groups_.push_back(a.group());
  }
}

void Model::round(float* x, int n) const {
  constexpr int kPiece = 256;
  alignas(64) char rounded[kPiece * sizeof(float)];
  for (int i = 0; i < n; i += kPiece) {
    const int count = std::min(kPiece, n - i);
    kernels.round_rows(x + i, count, 1, count, 1, rounded, kPiece);
    kernels.widen_rows(rounded, kPiece, 1, count, x + i, count);
  }
}

void Batch::clear() {
  rows = 0;
  tokens.clear(), positions.clear(), slots.clear();
  copies.clear(), copies_from.clear(), sequences.clear(), adapted.clear();
  sharers.clear(), shared.clear(), alone_from.clear(), sharer_of.clear(), last_shared = 0;
  roots.clear(), branches.clear();
}

void Batch::add(const int32_t* ids, int count, int position, const int32_t* blocks, int block_count, int state,
                int parent) {
  // Whose last token before `position` it is.
  while (parent >= 0 && position <= sequences[parent].position) parent = sequences[parent].parent;
  if (parent < 0)
    roots.push_back(int(sequences.size()));
  else
    branches[parent].push_back(int(sequences.size()));
  branches.emplace_back();
  sequences.push_back({rows, count, position, blocks, block_count, state, parent});
  for (int i = 0; i < count; i++) {
    const int p = position + i;
    tokens.push_back(ids[i]);
    positions.push_back(p);
    for (int g = 0; g < groups.count(); g++) slots.push_back({sequences.back().blocks_of(g)[p / kPage], p % kPage});
  }
  rows += count;
}

// Handing on a row's state costs about as much as reading a block of keys.
constexpr int kMinSharedBlocks = 2;

// Whole blocks before a sequence's first row, which it only reads.
static int blocks_before(const Sequence& s) { return s.position / kPage; }

// Blocks that two sequences begin with: by those of the first group, which hold the same tokens in the others.
static int blocks_in_common(const Sequence& a, const Sequence& b) {
  const int most = std::min(blocks_before(a), blocks_before(b));
  return int(std::mismatch(a.blocks, a.blocks + most, b.blocks).first - a.blocks);
}

// Runs among sharers [first, first + count), which have their blocks before `from` attended.
void Batch::share(int first, int count, int from, size_t depth) {
  const auto sequence = [&](int i) -> const Sequence& { return sequences[sharers[i]]; };
  const int end = blocks_in_common(sequence(first), sequence(first + count - 1));  // they are sorted
  if (end - from >= kMinSharedBlocks) {
    if (shared.size() <= depth) shared.resize(depth + 1);
    shared[depth++].push_back({from, end, first, count});
    std::fill_n(alone_from.begin() + first, count, from = end);
  }
  for (int i = first, next; i < first + count; i = next) {
    next = i + 1;
    while (next < first + count && blocks_in_common(sequence(i), sequence(next)) > end) next++;
    if (next - i > 1) share(i, next - i, from, depth);
  }
}

void Batch::list_shared() {
  for (size_t s = 0; s < sequences.size(); s++)
    if (sequences[s].rows == 1 && blocks_before(sequences[s]) >= kMinSharedBlocks) sharers.push_back(int(s));
  std::sort(sharers.begin(), sharers.end(), [&](int i, int j) {
    const Sequence &a = sequences[i], &b = sequences[j];
    return std::lexicographical_compare(a.blocks, a.blocks + blocks_before(a), b.blocks, b.blocks + blocks_before(b));
  });
  alone_from.assign(sharers.size(), 0);
  if (sharers.size() > 1) share(0, int(sharers.size()), 0, 0);
  sharer_of.assign(sequences.size(), -1);
  for (size_t i = 0; i < sharers.size(); i++)
    if (alone_from[i] > 0) {
      sharer_of[sharers[i]] = int(i);
      last_shared = std::max(last_shared, sequences[sharers[i]].position);
    }
}

void Batch::list_queries(const Model& m) {
  list_shared();
  for (std::vector<int>& list : branches)
    std::stable_sort(list.begin(), list.end(),
                     [&](int a, int b) { return sequences[a].position < sequences[b].position; });
  queries.resize(m.groups().size());
  for (size_t i = 0; i < queries.size(); i++) {
    Queries& q = queries[i];
    q.group = m.groups()[i];
    q.positions.clear(), q.tiles.clear();
    for (int32_t position : positions) q.positions.insert(q.positions.end(), q.group, position);
    const int per_tile = std::max(1, kAttentionRows / q.group);
    for (size_t s = 0; s < sequences.size(); s++)
      for (int row = 0; row < sequences[s].rows; row += per_tile)
        q.tiles.push_back({int(s), sequences[s].row0 + row, std::min(per_tile, sequences[s].rows - row)});
  }
}

void RunScratch::size(const Model& m, int rows, int lora_columns) {
  const Widths& c = m.widest();
  normed.size(rows, m.spec.hidden, m.kernels);
  q.size(rows, c.q, m.kernels);
  k.size(rows, c.kv, m.kernels);
  v.size(rows, c.kv, m.kernels);
  gate.size(rows, c.intermediate, m.kernels);
  up.size(rows, c.intermediate, m.kernels);
  act.size(rows, c.intermediate, m.kernels);
  if (c.norms_after) branch.size(rows, m.spec.hidden, m.kernels);
  if (c.gated) gated.size(rows, c.attended, m.kernels);
  codes.size(rows, m.code_groups());
  if (lora_columns)
    for (RowStore& s : z) s.size(rows, lora_columns, m.kernels);
}

void RunScratch::size_backward(const Model& m, int rows, int lora_columns) {
  const Widths& c = m.widest();
  d_out.size(rows, m.spec.hidden, m.kernels);
  d_gate.size(rows, c.intermediate, m.kernels);
  d_up.size(rows, c.intermediate, m.kernels);
  d_q.size(rows, c.q, m.kernels);
  d_k.size(rows, c.kv, m.kernels);
  d_v.size(rows, c.kv, m.kernels);
  d_qkv.size(rows, c.delta_in[0], m.kernels);
  d_normed.size(rows, m.spec.hidden);
  if (lora_columns)
    for (RowStore& s : g) s.size(rows, lora_columns, m.kernels);
}

void Workspace::configure_backward(const Model& m, int lora_columns) {
  for (RunScratch& s : runs) s.size_backward(m, run_rows, lora_columns);
  for (WorkerScratch& w : workers) {
    w.attention_backward.reserve(m.attention_kernels().attention_backward_scratch(m.widest().head_dim));
  }
}

void Workspace::configure(const Model& m, int rows, int count, int block, int lora_columns) {
  const Widths& c = m.widest();
  // A layer that stays in a core's cache is best applied to a run of rows at a time.
  by_rows = count > 1 && m.layer_bytes() <= (int64_t(4) << 20) && rows >= 8 * count;
  if (by_rows) {
    run_rows = std::min(kTileRows, std::max(8, (rows / (4 * count) + 7) / 8 * 8));
    if (block > 1) run_rows = block;
  } else {
    run_rows = std::min(kRunRows, rows);
  }
  runs.resize(std::max<size_t>(runs.size(), by_rows ? count : 1));
  for (int i = 0; i < (by_rows ? count : 1); i++) runs[i].size(m, run_rows, lora_columns);
  workers.resize(std::max<size_t>(workers.size(), count));
  // Per head: outputs of a tile of query rows, and one token's heads in float32.
  const size_t head = (size_t(kAttentionRows) * padded(c.head_dim) + 2 * c.attended + 3 * c.kv + 64) * sizeof(float);
  for (WorkerScratch& w : workers) {
    // A tile of a product, or three rows of the residual stream.
    w.tile.reserve(std::max<size_t>(2 * kTileRows * kTilePanels * kLanes, 3 * padded(m.spec.hidden)) * sizeof(float));
    w.panel.reserve(size_t(kBackwardColumns) / kLanes * panel_bytes(m.kernels, kBackwardReduction));
    w.attention.reserve(m.attention_kernels().attention_scratch(c.head_dim));
    w.head.reserve(head);
  }
  queries.size(rows, c.attended, m.kernels);
}

void Workspace::configure_unkept(const Model& m, int rows) {
  const Widths& c = m.widest();
  if (c.gated) gated_q.size(rows, c.q, m.kernels);
  for (int i = 0; i < kDeltaInputs; i++) delta_in[i].size(rows, c.delta_in[i], m.kernels);
}

}  // namespace anneal::cpu
