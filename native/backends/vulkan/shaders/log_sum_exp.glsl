// The log-sum-exp of a row: of absolute blocks of 512 columns, each with a maximum and a mass (row_blocks.glsl), that are
// merged in ascending order (cpu/kernels/logits.h), by a workgroup of kMerged invocations or more.
const int kBlock = 512;
int blocks_of(int n) { return (n + kBlock - 1) / kBlock; }

#ifdef MERGES_BLOCKS
const int kMerged = 256;  // blocks at once
const int kLinks = 8;     // of the chain that are read before they are added
shared float running[kMerged], factors[kMerged], terms[kMerged];
shared float row_result;

// The maximum and the mass of a block.
vec2 block_at(int block);

// Factors depend on maxima alone: only a product and a sum a block are a chain.
float log_sum_exp(int count) {
  const int me = int(gl_LocalInvocationID.x);
  float row_maximum = kLowest, row_sum = 0.0;
  for (int first = 0; first < count; first += kMerged) {
    const bool is_here = me < kMerged && first + me < count;
    vec2 block = vec2(kLowest, 0.0);  // leaves what is there as it is
    if (is_here) block = block_at(first + me);
    float high = block.x;
    if (me < kMerged) running[me] = high;
    for (int step = 1; step < kMerged; step *= 2) {
      barrier();
      float other = kLowest;
      if (me >= step && me < kMerged) other = running[me - step];
      barrier();
      high = high > other ? high : other;
      if (me < kMerged) running[me] = high;
    }
    barrier();
    if (me < kMerged) {
      float before = row_maximum;
      if (me > 0) before = running[me - 1] > before ? running[me - 1] : before;
      const float larger = block.x > before ? block.x : before;
      factors[me] = exponential(before - larger);
      terms[me] = block.y * exponential(block.x - larger);
    }
    const float highest = running[kMerged - 1];
    row_maximum = highest > row_maximum ? highest : row_maximum;
    barrier();
    if (me == 0)
      for (int i = 0; i < min(kMerged, count - first); i += kLinks) {
        float factor[kLinks], term[kLinks];
        for (int j = 0; j < kLinks; j++) factor[j] = factors[i + j], term[j] = terms[i + j];
        for (int j = 0; j < kLinks; j++) row_sum = row_sum * factor[j] + term[j];
      }
    barrier();
  }
  if (me == 0) row_result = row_maximum + logarithm(row_sum);
  barrier();
  const float result = row_result;
  barrier();
  return result;
}
#endif
