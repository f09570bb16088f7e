// The log-sum-exp of a row by a workgroup of 256: absolute blocks of 512 columns, each a maximum and a sum by 16 lanes, are
// combined in ascending order (cpu/kernels/logits.h).
const int kBlock = 512, kAtOnce = 16;
shared float lanes[kAtOnce][kLanes], block_maximum[kAtOnce];
shared float row_maximum, row_sum;

float tree(int b) {
  float s[8];
  for (int i = 0; i < 8; i++) s[i] = lanes[b][i] + lanes[b][i + 8];
  for (int i = 0; i < 4; i++) s[i] = s[i] + s[i + 4];
  return (s[0] + s[2]) + (s[1] + s[3]);
}

// Of scale * x.at[at .. at + n).
float log_sum_exp(Floats x, int at, int n, float scale) {
  const int me = int(gl_LocalInvocationID.x), b = me / kLanes, lane = me % kLanes;
  if (me == 0) row_maximum = kLowest, row_sum = 0.0;
  barrier();
  for (int begin = 0; begin < n; begin += kBlock * kAtOnce) {
    const int from = begin + b * kBlock, to = min(n, from + kBlock);
    float high = kLowest;
    for (int i = from + lane; i < to; i += kLanes) {
      const float value = scale * x.at[at + i];
      high = high > value ? high : value;
    }
    lanes[b][lane] = high;
    barrier();
    if (lane == 0) {
      for (int i = 1; i < kLanes; i++) high = high > lanes[b][i] ? high : lanes[b][i];
      block_maximum[b] = high;
    }
    barrier();
    float mass = 0.0;
    for (int i = from + lane; i < to; i += kLanes) mass = mass + exponential(scale * x.at[at + i] - block_maximum[b]);
    lanes[b][lane] = mass;
    barrier();
    if (me == 0)
      for (int i = 0; i < kAtOnce && begin + i * kBlock < n; i++) {
        const float larger = block_maximum[i] > row_maximum ? block_maximum[i] : row_maximum;
        row_sum = row_sum * exponential(row_maximum - larger) + tree(i) * exponential(block_maximum[i] - larger);
        row_maximum = larger;
      }
    barrier();
  }
  return row_maximum + logarithm(row_sum);
}
