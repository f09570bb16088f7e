// The weights of a decoder in the kernels' layout, one copy.
#pragma once
#include <vector>

#include "../backend.h"
#include "kernels/quantized_panels.h"
#include "memory.h"

namespace anneal::cpu {

using backends::AdapterRef;
using backends::AdapterValues;
using backends::NoRoom;
using backends::OptimizerSettings;
using backends::PassOptions;
using backends::RowRequest;
using backends::RowResult;
using backends::Run;
using backends::TensorReader;
using backends::Trainable;
using backends::TrainPass;
using backends::TrainRow;
using namespace model;

DType dtype_of(model::TensorFormat);

// y[n] = x[k] . W^T (+ bias)
struct Linear {
  int n = 0, k = 0;
  TensorFormat format = TensorFormat::f32;  // of the panels: the model's, or a quantised one
  // Quantised, and multiplied with activations as they are: codes of 8 bits would lose too much of these.
  bool weight_only = false;
  char* panels = nullptr;   // in the model's memory
  std::vector<float> bias;  // [n], or empty
  bool quantized() const { return is_quantized(format); }
  bool takes_codes() const { return quantized() && !weight_only; }
};

inline size_t panel_bytes(const Kernels& k, const Linear& w) {
  return w.quantized() ? size_t(quantized_panel_bytes_of(w.format, w.k)) : panel_bytes(k, w.k);
}
// Whether backward multiplies codes of gradients with codes of the transpose: both are rounded to 8 bits, by which
// gradients err by about as much as by bfloat16. In float32 they are exact, and the matrix unit is faster at bfloat16.
inline bool codes_gradients(const Kernels& k, const Linear& w) {
  return is_wide(w.format) || (w.quantized() && k.type == DType::bf16 && !is_fast(k.isa));
}
// Bytes of a panel of the transpose, as backward multiplies it, over `rows` outputs.
inline size_t back_panel_bytes(const Kernels& k, const Linear& w, int rows) {
  return codes_gradients(k, w) ? size_t(quantized_back_panel_bytes(w.format, rows)) : panel_bytes(k, rows);
}
// Of codes of a row of gradients, of so many outputs, that are multiplied with that; 0: they are taken as they are.
inline int64_t gradient_code_bytes_of(const Kernels& k, const Linear& w, int outputs) {
  return codes_gradients(k, w) ? code_row_bytes(w.format, outputs) : 0;
}
// Of all its panels, each of whole vectors.
inline size_t matrix_bytes(const Kernels& k, const Linear& w) { return panels_of(w.n) * panel_bytes(k, w); }

// What is stored, and what rows are multiplied with: that, or 1 more.
struct NormWeight {
  std::vector<float> stored, used;  // empty: no norm
  const float* data() const { return used.empty() ? nullptr : used.data(); }
  void use(bool adds_one) {
    used = stored;
    if (adds_one)
      for (float& x : used) x += 1;
  }
};

// What the delta rule of a layer has beside its projections and its norm, always float32.
struct DeltaWeights {
  std::vector<float> convolution;       // [conv_width][kernel]
  std::vector<float> a_log, step_bias;  // [value_heads]
  std::vector<float> taps;              // of the convolution, see KeyHead: [key_heads][kernel][width]
  std::vector<float> rate;              // e^a_log
  std::vector<float>& stored(int tensor);
  // When what is stored has changed.
  void use(const DeltaRuleSpec&);
};

// What a short convolution has beside its projections, always float32.
struct ConvolutionWeights {
  std::vector<float> weight, bias;  // [width][kernel]; [width], or empty
  std::vector<float> taps;          // [kernel][width]
  // As convolution_tensors() has them.
  std::vector<float>& stored(int tensor) { return tensor ? bias : weight; }
  // When what is stored has changed.
  void use(const ShortConvolutionSpec&);
};

struct Expert {
  Linear gate, up, down;
  Linear& of(int projection) { return projection == kGate ? gate : projection == kUp ? up : down; }
};

struct Layer {
  Linear projections[kProjections];
  Linear router, shared_gate;    // multiplied with activations as they are
  Linear token_gate, token_out;  // of token inputs
  std::vector<Expert> experts;
  NormWeight norms[kNorms];
  DeltaWeights delta;
  ConvolutionWeights convolution;
  std::vector<float> sinks;       // [heads], or empty
  std::vector<float> score_bias;  // [experts], or empty
  std::vector<float> value_norm;  // ones [head_dim] where values have a norm
  float scale = 1;                // of what the layer puts out
  template <class Use> void each_matrix(Use&& use) { each_of(*this, use); }
  template <class Use> void each_matrix(Use&& use) const { each_of(*this, use); }

 private:
  template <class Self, class Use> static void each_of(Self& self, Use& use) {
    for (auto& w : self.projections) use(w);
    use(self.router), use(self.shared_gate), use(self.token_gate), use(self.token_out);
    for (auto& e : self.experts) use(e.gate), use(e.up), use(e.down);
  }
};

// Columns of the convolution that a key head and its value heads read: query, key, values.
struct KeyHeadColumns {
  struct Part {
    int from, count;
  } parts[3];
  int width;  // of all
  KeyHeadColumns(const DeltaRuleSpec&, int head);
};

struct Weights {
  Linear embedding, untied_head;
  Linear token_table, token_projection;
  NormWeight final_norm, token_norm;
  std::vector<Layer> layers;
  // The panels of all matrices, one after the other: most matrices of a small model are smaller than a large page, and
  // small ones are read slower.
  Buffer panels;

  // Shapes and formats, without numbers.
  explicit Weights(const ModelSpec&);
  size_t panels_bytes(const Kernels&) const;
  // Exchanges all panels for others of that many bytes: untouched ones, which are to be filled, or a later version.
  void swap_panels(const Kernels&, Buffer&);
  const Linear& head() const { return untied_head.n ? untied_head : embedding; }
  Linear& head() { return untied_head.n ? untied_head : embedding; }
};

// Null when `progress` (given the fraction done) returns false.
std::unique_ptr<Weights> load_weights(const ModelSpec&, const Kernels&, Pool&, const TensorReader&,
                                      const std::function<bool(double)>& progress);
int64_t weight_bytes(const ModelSpec&, const Kernels&);

}  // namespace anneal::cpu
