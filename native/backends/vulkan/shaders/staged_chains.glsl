// Chains of kRows rows with 32 outputs, through shared memory. Shaders have k and ldx among their parameters.
layout(local_size_x = 256) in;
layout(constant_id = 2) const int kRows = 1;

const int kInvocations = 256, kCols = 32, kWorkers = kInvocations / kCols;
// Few rows are for one worker on each of a multiprocessor's four schedulers: a weight that is read and widened then
// serves more rows.
const int kSumming = kRows < 4 ? kRows : kRows < 32 ? 4 : kWorkers, kEach = kRows / kSumming;
const int kQuads = kGranule / 4;
// Granules of k that are staged at once: as many as 32 KiB hold, 16 bytes of each output and 16 to 32 of each row. The
// chains through them take longer than the next ones' loads.
const int kDepth = kRows <= 16 ? 32 : 512 / kRows;
const int kWeightLoads = kDepth * kCols / kInvocations;
const int kRowLoads = (kDepth * kRows + kInvocations - 1) / kInvocations;

shared uvec4 staged_w[kDepth * kCols];
shared vec4 staged_x[kQuads * kRows * kDepth];  // by quads of a granule, then rows

struct Staged {  // on its way to there
  uvec4 w[kWeightLoads], x[kRowLoads];
};

bool has_chains() { return int(gl_LocalInvocationID.x) < kSumming * kCols; }

// Granules from `first` on. Those beyond the last repeat it, and are not summed.
void fetch(out Staged to, Granules x, Granules w, int col, int row0, int rows, int first) {
  const int me = int(gl_LocalInvocationID.x), last = granules_of(k) - 1;
  LOOP for (int i = 0; i < kWeightLoads; i++)
    to.w[i] = weights_of(w, k, col, min(first + i * kWorkers + me / kCols, last));
  LOOP for (int i = 0; i < kRowLoads; i++) {
    const int at = min(i * kInvocations + me, kRows * kDepth - 1);
    to.x[i] = x.at[min(row0 + at / kDepth, rows - 1) * ldx + min(first + at % kDepth, last)];
  }
}

void stage(Staged from, int first) {
  const int me = int(gl_LocalInvocationID.x);
  LOOP for (int i = 0; i < kWeightLoads; i++) staged_w[i * kInvocations + me] = from.w[i];
  LOOP for (int i = 0; i < kRowLoads; i++) {
    const int at = i * kInvocations + me;
    const int count = k - (first + at % kDepth) * kGranule;
    LOOP for (int q = 0; q < kQuads; q++) {
      vec4 values;
      for (int j = 0; j < 4; j++) values[j] = part(from.x[i], 4 * q + j);
      // Beyond k, where weights are zeros: a product of -0 leaves every sum as it is.
      if (count < kGranule)
        for (int j = 0; j < 4; j++) values[j] = 4 * q + j < count ? values[j] : as_float(kSign);
      if (at < kRows * kDepth) staged_x[q * kRows * kDepth + at] = values;
    }
  }
}

// The chains of a workgroup over all k, of whose first granules the loads are in flight.
void sum_chains(inout float c[kEach], inout Staged staged, Granules x, Granules w, int col, int row0, int rows) {
  const int me = int(gl_LocalInvocationID.x), lane = me % kCols, granules = granules_of(k);
  const int x0 = me / kCols * kEach * kDepth;
  const bool sums = has_chains();
  for (int first = 0; first < granules; first += kDepth) {
    stage(staged, first);
    barrier();
    if (first + kDepth < granules) fetch(staged, x, w, col, row0, rows, first + kDepth);
    if (sums) {
      const int count = min(kDepth, granules - first);
      // What comes first of a granule is read before the sums over the last one.
      uvec4 weight = staged_w[lane];
      vec4 activation = staged_x[x0];
      LOOP for (int g = 0; g < count; g++) {
        vec4 wide[kQuads];
        for (int q = 0; q < kQuads; q++)
          for (int j = 0; j < 4; j++) wide[q][j] = part(weight, 4 * q + j);
        const vec4 begins = activation;
        const int next = (g + 1) % kDepth;
        weight = staged_w[next * kCols + lane], activation = staged_x[x0 + next];
        LOOP for (int r = 0; r < kEach; r++)
          LOOP for (int q = 0; q < kQuads; q++) {
            const vec4 values = r + q == 0 ? begins : staged_x[q * kRows * kDepth + x0 + r * kDepth + g];
            c[r] = chain_of_four(c[r], values, wide[q]);
          }
      }
    }
    barrier();
  }
}
