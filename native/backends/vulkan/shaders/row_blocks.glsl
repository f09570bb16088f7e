// Absolute blocks of 512 columns of a row [n], 16 lanes to a block (cpu/kernels/logits.h) and four blocks to a workgroup:
// workgroups along x have a row's blocks.
layout(local_size_x = 64) in;

const int kBlocksAtOnce = 64 / kLanes, kLaneColumns = kBlock / kLanes;

shared float columns[kLaneColumns][64];  // of each lane's own
shared float of_lane[64];

const int kAhead = 16;  // loads before the first of them is used

int block_here() { return int(gl_WorkGroupID.x) * kBlocksAtOnce + int(gl_LocalInvocationID.x) / kLanes; }
int column_here(int j) { return block_here() * kBlock + j * kLanes + int(gl_LocalInvocationID.x) % kLanes; }

// What lies behind the row's end is minus infinity: it adds nothing.
void read_columns(Floats x, int at, int n) {
  const int me = int(gl_LocalInvocationID.x);
  LOOP for (int first = 0; first < kLaneColumns; first += kAhead) {
    float some[kAhead];
    for (int j = 0; j < kAhead; j++) some[j] = x.at[at + min(column_here(first + j), n - 1)];
    for (int j = 0; j < kAhead; j++) columns[first + j][me] = column_here(first + j) < n ? some[j] : as_float(0xff800000u);
  }
}

// Of what the lanes of a block have.
float tree_of_lanes(float mine) {
  const int me = int(gl_LocalInvocationID.x), first = me - me % kLanes;
  barrier();
  of_lane[me] = mine;
  barrier();
  float s[8];
  for (int i = 0; i < 8; i++) s[i] = of_lane[first + i] + of_lane[first + i + 8];
  for (int i = 0; i < 4; i++) s[i] = s[i] + s[i + 4];
  return (s[0] + s[2]) + (s[1] + s[3]);
}

// The maximum of scale * x, and the sum of e^(scale * x - maximum).
vec2 maximum_and_mass(float scale) {
  const int me = int(gl_LocalInvocationID.x), first = me - me % kLanes;
  float high = kLowest;
  for (int j = 0; j < kLaneColumns; j++) {
    const float value = scale * columns[j][me];
    high = high > value ? high : value;
  }
  barrier();
  of_lane[me] = high;
  barrier();
  for (int i = 0; i < kLanes; i++) high = high > of_lane[first + i] ? high : of_lane[first + i];
  float mass = 0.0;
  LOOP for (int j = 0; j < kLaneColumns; j++) mass = mass + exponential(scale * columns[j][me] - high);
  return vec2(high, tree_of_lanes(mass));
}
