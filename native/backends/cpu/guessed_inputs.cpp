#include "guessed_inputs.h"

#include <cstring>

#include "convolution_layer.h"
#include "delta_layer.h"

namespace anneal::cpu {

void GuessedInputs::take(const Model& m, const Batch& batch, int layer, const Workspace& ws) {
  layers_.resize(size_t(m.layers()));
  const Widths widths = widths_of(m.spec.layers[layer]);
  for (int i = 0; i < m.recurrent_inputs(layer); i++) {
    RowStore& to = layers_[layer].delta_in[i];
    to.size(rows_, widths.delta_in[i], m.kernels);
    for (const Guess& guess : guesses_) {
      const Sequence& s = batch.sequences[guess.sequence];
      for (int row = 0; row < s.rows; row++)
        std::memcpy(to.at(guess.row0 + row), ws.delta_in[i].at(s.row0 + row), size_t(widths.delta_in[i]) * to.elem);
    }
  }
}

void GuessedInputs::keep(Team& team, const Model& m, const Batch& step, std::span<const int> kept,
                         const Rows& attention, Workspace& ws) {
  batch_.clear();
  batch_.recurrent = step.recurrent;
  for (const Guess& guess : guesses_) {
    const int count = kept[guess.run];
    if (count == 0) continue;
    // Of tokens and pages nothing is read any more.
    batch_.roots.push_back(int(batch_.sequences.size()));
    batch_.branches.emplace_back();
    batch_.sequences.push_back({guess.row0, count, step.sequences[guess.sequence].position, nullptr, 0,
                                step.root_of(guess.sequence).recurrent, -1});
    batch_.rows += count;
  }
  if (batch_.rows == 0) return;
  reserve_delta_forward(m, batch_, ws);
  for (int l = 0; l < m.layers(); l++) {
    if (m.attends(l)) continue;
    LayerActivations a;
    for (int i = 0; i < m.recurrent_inputs(l); i++) a.delta_in[i] = layers_[l].delta_in[i];
    a.attention = attention;
    (m.delta_rule(l) ? delta_forward : convolution_forward)(team, m, batch_, l, a, ws);
  }
}

}  // namespace anneal::cpu
