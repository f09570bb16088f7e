// Tokens of a key head, a workgroup to each: its convolution, and lengths of its query and key.
layout(local_size_x = 64) in;

shared float sums[2][kKeyDim];  // of the convolution, of the query and the key
shared float convolved[2][kKeyDim];

// Of the convolution over column `col` of what the projection put out, up to this row. `before`: for each row the rows of
// the kLead tokens before it, the latest last; -1: there is none; below: inputs that a sequence has kept.
float convolution(Elements qkv, int ld, Floats taps, Floats tails, Ints before, int lead, int row, int col) {
  float sum = 0.0;
  for (int j = 0; j < kKernel; j++) {
    const int from = j == kKernel - 1 ? row : before.at[row * lead + lead - (kKernel - 1) + j];
    float x = 0.0;
    if (from >= 0) {
      x = element(qkv, from * ld + col);
    } else if (from < -1) {
      const int kept = -2 - from, back = kept % lead + 1;
      x = tails.at[(kept / lead * (kKernel - 1) + kKernel - 1 - back) * kWidth + col];
    }
    sum = mad(x, taps.at[j * kWidth + col], sum);
  }
  return sum;
}

float silu(float g) { return quotient(g, 1.0 + exponential(-g)); }
float logistic(float g) { return quotient(1.0, 1.0 + exponential(-g)); }

// 1 / |x| of the query or the key.
float inverse_length(int part) {
  const int lane = int(gl_LocalInvocationID.x);
  barrier();
  if (lane < kLanes) {
    float sum = 0.0;
    for (int i = lane; i < kKeyDim; i += kLanes) sum = mad(convolved[part][i], convolved[part][i], sum);
    lane_sums[lane] = sum;
  }
  barrier();
  return quotient(1.0, root(sum_of_lanes() + kL2Eps));
}
