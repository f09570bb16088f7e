// Tokens pass in stretches, for which the products are made anew. Where stretches and channels are cut changes no bit.
#include "convolution_layer.h"

#include "products.h"

namespace anneal::cpu {
namespace {

constexpr int kStretch = 64, kMaxChannels = 256, kMinChannels = 64;
// Products of a stretch, their gradients, and those of the weight and the bias.
static_assert((2 * (kStretch + kMaxConvolution) + kMaxConvolution + 1) * kMaxChannels <= kTileFloats);
static_assert(kMaxConvolution <= kStretch);

// How the channels are cut, so that all workers have some where `owners` go through them side by side.
struct Channels {
  int width, each;
  Channels(int all, int64_t owners, int workers) : width(all) {
    const int64_t wanted = (4 * workers + owners - 1) / std::max<int64_t>(owners, 1);
    each = std::clamp(int(padded(width / std::max<int64_t>(wanted, 1))), kMinChannels, kMaxChannels);
  }
  int blocks() const { return (width + each - 1) / each; }
};

// Some channels of a layer.
class Convolution {
 public:
  Convolution(const Model& m, const Batch& batch, int layer, const LayerActivations& a, const Channels& channels,
              int block)
      : k_(m.kernels),
        batch_(batch),
        layer_(layer),
        c_(*m.short_convolution(layer)),
        w_(m.weights->layers[layer].convolution),
        in_(a.delta_in[0]),
        out_(a.attention),
        first_(block * channels.each),
        count_(std::min(channels.each, channels.width - first_)) {}

  // Of a sequence and those that branch off it, which begin with what is kept before it.
  void forward(int sequence, float* x, const Team& team, int worker) const {
    const Sequence& s = batch_.sequences[sequence];
    for (int branch : batch_.branches[sequence]) forward(branch, x, team, worker);
    for (int from = 0; from < s.rows; from += kStretch) {
      team.preemption_point(worker);
      const int rows = std::min(kStretch, s.rows - from), row = s.row0 + from;
      multiply(sequence, from, rows, x);
      k_.gated_conv(x, count_, taps(), c_.width, bias(), c_.kernel, rows, count_, gate(row), in_.ld,
                    out_.at(row, first_), out_.ld);
      if (from + rows == s.rows && s.recurrent >= 0)
        for (int j = 0; j < lead(); j++)
          std::memcpy(kept(s, j), x + int64_t(rows + j) * count_, size_t(count_) * sizeof(float));
    }
  }

  // Of a sequence and those that branch off it. The gradient of a product is summed where that of x will be.
  struct Sums {
    float *x, *dx, *taps, *bias;  // the last two null: not wanted
  };
  void backward(int sequence, const ConvolutionGradients& d, const Sums& sums, const Team& team, int worker) const {
    const Sequence& s = batch_.sequences[sequence];
    for (int from = 0; from < s.rows; from += kStretch) {
      team.preemption_point(worker);
      const int rows = std::min(kStretch, s.rows - from), row = s.row0 + from;
      multiply(sequence, from, rows, sums.x);
      std::memset(sums.dx, 0, size_t(lead() + rows) * count_ * sizeof(float));
      k_.gated_conv_backward(sums.x, count_, taps(), c_.width, bias(), c_.kernel, rows, count_, gate(row), in_.ld,
                             d.out.at(row, first_), d.out.ld, d.in.at(row, c_.width + first_), d.in.ld, sums.dx, count_,
                             sums.taps, count_, sums.bias);
      for (int i = 0; i < lead() + rows; i++)
        if (const int position = s.position + from - lead() + i; position >= 0)
          k_.add(d.in.at(batch_.row_of(sequence, position), 2 * c_.width + first_), sums.dx + int64_t(i) * count_,
                 count_);
    }
    for (int branch : batch_.branches[sequence]) backward(branch, d, sums, team, worker);
  }

  int first() const { return first_; }
  int count() const { return count_; }

 private:
  int lead() const { return c_.kernel - 1; }
  const float* taps() const { return w_.taps.data() + first_; }
  const float* bias() const { return c_.bias ? w_.bias.data() + first_ : nullptr; }
  const void* gate(int row) const { return in_.at(row, c_.width + first_); }
  float* kept(const Sequence& s, int j) const {
    return batch_.recurrent->of(s.recurrent, layer_, 0) + int64_t(j) * c_.width + first_;
  }

  // x [kernel - 1 + rows][count] of tokens [from, from + rows) of a sequence and those before.
  void multiply(int sequence, int from, int rows, float* x) const {
    const Sequence &s = batch_.sequences[sequence], &root = batch_.root_of(sequence);
    for (int i = 0; i < lead() + rows; i++, x += count_) {
      const int position = s.position + from - lead() + i;
      if (position < 0) {
        std::memset(x, 0, size_t(count_) * sizeof(float));
      } else if (position < root.position && root.recurrent >= 0) {
        std::memcpy(x, kept(root, position - root.position + lead()), size_t(count_) * sizeof(float));
      } else {
        const int row = position < s.position ? batch_.row_of(sequence, position) : s.row0 + position - s.position;
        k_.multiply(in_.at(row, first_), in_.at(row, 2 * c_.width + first_), count_, x);
      }
    }
  }

  const Kernels& k_;
  const Batch& batch_;
  const int layer_;
  const ShortConvolutionSpec& c_;
  const ConvolutionWeights& w_;
  const Rows in_, out_;
  const int first_, count_;
};

}  // namespace

void convolution_forward(Team& team, const Model& m, const Batch& batch, int layer, const LayerActivations& a,
                         Workspace& ws) {
  const int64_t roots = int64_t(batch.roots.size());
  const Channels channels(m.short_convolution(layer)->width, roots, team.workers());
  team.each(roots * channels.blocks(), [&](int64_t chunk, int worker) {
    Convolution(m, batch, layer, a, channels, int(chunk % channels.blocks()))
        .forward(batch.roots[chunk / channels.blocks()], ws.workers[worker].tile.floats(), team, worker);
  });
}

void convolution_backward(Team& team, const Model& m, const Batch& batch, int layer, const LayerActivations& a,
                          const ConvolutionGradients& d, Workspace& ws) {
  const ShortConvolutionSpec& c = *m.short_convolution(layer);
  const Kernels& k = m.kernels;
  each_rows(team, batch.rows, c.width, [&](int row, int n, int) {
    for (int t = row; t < row + n; t++) std::memset(d.in.at(t, 2 * c.width), 0, size_t(c.width) * sizeof(float));
  });
  // Gradients of weights have one owner for all sequences, who adds them in order.
  const bool weights = bool(d.weight);
  const int64_t roots = int64_t(batch.roots.size()), owners = weights ? 1 : roots;
  const Channels channels(c.width, owners, team.workers());
  team.each(owners * channels.blocks(), [&](int64_t chunk, int worker) {
    const Convolution convolution(m, batch, layer, a, channels, int(chunk % channels.blocks()));
    const int n = convolution.count();
    float *const x = ws.workers[worker].tile.floats(), *const dx = x + (kStretch + kMaxConvolution) * n,
                 *const taps = dx + (kStretch + kMaxConvolution) * n, *const bias = taps + kMaxConvolution * n;
    if (!weights) {
      convolution.backward(batch.roots[chunk / channels.blocks()], d, {x, dx, nullptr, nullptr}, team, worker);
      return;
    }
    std::memset(taps, 0, size_t(kMaxConvolution + 1) * n * sizeof(float));
    for (int root : batch.roots) convolution.backward(root, d, {x, dx, taps, c.bias ? bias : nullptr}, team, worker);
    for (int j = 0; j < c.kernel; j++)
      for (int i = 0; i < n; i++) *d.weight.at(convolution.first() + i, j) += taps[int64_t(j) * n + i];
    if (c.bias) k.add(d.bias + convolution.first(), bias, n);
  });
  each_rows(team, batch.rows, 3 * c.width, [&](int row, int n, int) {
    const Rows& in = a.delta_in[0];
    for (int t = row; t < row + n; t++)
      k.multiply_backward(in.at(t), in.at(t, 2 * c.width), d.in.at(t, 2 * c.width), c.width, d.in.at(t),
                          d.in.at(t, 2 * c.width));
  });
}

}  // namespace anneal::cpu
