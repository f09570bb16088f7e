// Parameters under training: float32 masters, gradients, moments, and the optimizer over them. All work over them is
// done in loops of small pieces, which give way to inference and end early when training is closed.
#pragma once
#include "../parts.h"
#include "adapter.h"
#include "loaded_model.h"

namespace anneal::cpu {

// Where a backward pass adds gradients; what has no data is not trained.
struct LayerGradients {
  Matrix weight[kProjections];              // [outputs][inputs]
  Matrix a[kProjections], b[kProjections];  // [rank][inputs], [outputs][rank]
  float* bias[kProjections] = {};           // [outputs]
  float* norms[kNorms] = {};                // [hidden], or [head_dim] of norms of heads
  Matrix delta[kDeltaTensors];              // [rows][cols]; vectors have one row
  Matrix convolution[2];                    // likewise, as convolution_tensors() has them
};
struct ModelGradients {
  std::vector<LayerGradients> layers;
  Matrix embedding, head;  // [vocab][hidden]; one and the same when tied
  float* final_norm = nullptr;
};

class Parameters : public backends::PartTrainable {
 public:
  explicit Parameters(Pool& pool, const Kernels& kernels) : pool_(pool), kernels_(kernels) {}

  ~Parameters() override {
    if (at_end_) at_end_();
  }
  // Called when training is over, or rests, so that its memory can be given back.
  void at_end(std::function<void()> f) { at_end_ = std::move(f); }

  void zero_grad() override { gradient_ = Gradient::dropped; }
  double add_squares(double sum) override;
  void step(const OptimizerSettings&, double norm) override;
  int64_t steps() const override { return steps_; }
  void set_steps(int64_t steps) override { steps_ = steps; }
  void rest() override {
    zero_grad();
    if (at_end_) at_end_();
  }
  const std::vector<TensorShape>& tensors() const override { return tensors_; }
  void read(int tensor, Part, std::span<float> to) const override;
  void write(int tensor, Part, std::span<const float> from) override;

  int64_t bytes() const override;
  virtual bool full() const = 0;
  // Of version(); null for full training.
  virtual std::shared_ptr<const AdapterPanels> transposes() const = 0;
  void refresh() override {
    take_next();
    publish();
  }
  // What backward passes add to: its shape is what matters to whoever prepares one.
  ModelGradients wanted() const;
  // The destination of one backward pass, zeros. Nothing of it counts before commit(), which is all or nothing; false
  // if aborted.
  bool begin(ModelGradients& destination);
  bool commit();

 protected:
  struct Parameter {
    int64_t rows, cols, ld;  // as stored: vectors are one row
    bool decay;              // weight decay applies
    Buffer value, gradient, pending, moment1, moment2;
    int64_t size() const { return rows * ld; }
    Matrix values() const { return {value.floats(), ld}; }
  };
  struct Piece {
    int parameter;
    int64_t from, count;
  };
  int add(TensorShape, bool decay);
  // f(piece, parameter, first element, elements) for pieces of all parameters. The division is fixed: sums over pieces
  // do not depend on the number of workers. False if aborted.
  template <class F> bool each_piece(F&& f) const {
    return Team(pool_).each(int64_t(pieces_.size()),
                            [&](int64_t i, int) { f(i, pieces_[i].parameter, pieces_[i].from, pieces_[i].count); });
  }
  int64_t pieces() const { return int64_t(pieces_.size()); }
  static constexpr int64_t kPiece = 1 << 16;
  virtual ModelGradients gradients(const std::function<Matrix(int)>& of) const = 0;
  // The version that comes next: its memory; and the values in it, which takes no more, in use. The latter throws
  // Aborted.
  virtual void take_next() = 0;
  virtual void publish() = 0;
  // Of the compute copies that a step makes.
  virtual int64_t version_bytes() const = 0;

  Pool& pool_;
  const Kernels& kernels_;
  std::vector<Parameter> parameters_;
  std::vector<Piece> pieces_;

 private:
  // Dropped: the gradient is zero, whatever its memory holds.
  enum class Gradient : uint8_t { zeros, dropped, present };

  const Buffer& part(const Parameter&, Part) const;
  std::function<void()> at_end_;
  std::vector<TensorShape> tensors_;
  int64_t steps_ = 0;
  Gradient gradient_ = Gradient::zeros;
  bool pending_ = false;  // the open backward pass adds to `pending`
};

std::unique_ptr<Parameters> train_adapter_parameters(const Model&, Pool&, const LoraSpec&, uint64_t seed,
                                                     const AdapterValues* values);
std::unique_ptr<Parameters> train_weight_parameters(Model&, Pool&);

}  // namespace anneal::cpu
