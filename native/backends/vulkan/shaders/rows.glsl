// Sums over a row by a workgroup: 16 lanes, each a chain, and one fixed tree (cpu/kernels/simd_portable.h).
shared float lane_sums[kLanes];

float sum_of_lanes() {
  float s[8];
  for (int i = 0; i < 8; i++) s[i] = lane_sums[i] + lane_sums[i + 8];
  for (int i = 0; i < 4; i++) s[i] = s[i] + s[i + 4];
  return (s[0] + s[2]) + (s[1] + s[3]);
}
