// Sums of squares by the 16 lanes of rows.glsl, of numbers that the whole workgroup reads, several at once each.
layout(local_size_x = 256) in;

const int kInvocations = 256, kLoads = 4, kAtOnce = kInvocations * kLoads;
const int kAhead = 8;  // numbers that a lane reads before it sums them; kAtOnce is a multiple of kLanes times this
shared float staged[kAtOnce];

float sum_of_squares(Floats x, int at, int n) {
  const int me = int(gl_LocalInvocationID.x);
  float sum = 0.0, next[kLoads];
  for (int i = 0; i < kLoads; i++) next[i] = x.at[at + min(i * kInvocations + me, n - 1)];
  for (int begin = 0; begin < n; begin += kAtOnce) {
    for (int i = 0; i < kLoads; i++) {
      const int at_once = i * kInvocations + me;
      staged[at_once] = begin + at_once < n ? next[i] : 0.0;  // which leaves a sum of squares as it is
    }
    barrier();
    if (begin + kAtOnce < n)
      for (int i = 0; i < kLoads; i++) next[i] = x.at[at + min(begin + kAtOnce + i * kInvocations + me, n - 1)];
    if (me < kLanes) {
      const int count = min(kAtOnce, n - begin);
      for (int i = me; i < count; i += kLanes * kAhead) {
        float ahead[kAhead];
        LOOP for (int j = 0; j < kAhead; j++) ahead[j] = staged[i + j * kLanes];
        LOOP for (int j = 0; j < kAhead; j++) sum = mad(ahead[j], ahead[j], sum);
      }
    }
    barrier();
  }
  if (me < kLanes) lane_sums[me] = sum;
  barrier();
  return sum_of_lanes();
}
