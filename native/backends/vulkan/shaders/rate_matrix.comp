#version 460
// Products of cooperative matrices and nothing else: 8 sums to a subgroup.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "buffers.glsl"
#include "cooperative.glsl"

layout(push_constant) uniform Parameters {
  Floats numbers;  // [2]; what is written is never read
  int steps, padding;
};

shared float outs[kSubgroups * kM * kN];

void main() {
  const Left left = Left(float16_t(numbers.at[0]));
  const Right right = Right(float16_t(numbers.at[1]));
  Sum sums[8];
  for (int i = 0; i < 8; i++) sums[i] = Sum(float(int(gl_SubgroupID) + i));
  LOOP for (int step = 0; step < steps; step++)
    for (int i = 0; i < 8; i++) sums[i] = coopMatMulAddNV(left, right, sums[i]);
  for (int i = 1; i < 8; i++) sums[0] = sums[0] + sums[i];
  coopMatStoreNV(sums[0], outs, int(gl_SubgroupID) * kM * kN, kN, false);
  barrier();
  const float found = outs[gl_LocalInvocationID.x % uint(kSubgroups * kM * kN)];
  if (found == 0.123) numbers.at[0] = found;
}
