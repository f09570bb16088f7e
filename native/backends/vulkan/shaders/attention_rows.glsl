// Rows of attention on cooperative matrices as float16, and what the invocations that share a row put together.

const float kLargestHalf = 65504.0;
uvec4 finite_halves(uvec4 g) {
  for (int i = 0; i < 4; i++)
    g[i] = packHalf2x16(clamp(vec2(widened(g[i] & 0xffffu), as_float(g[i] & 0xffff0000u)), -kLargestHalf, kLargestHalf));
  return g;
}

shared float of_sharers[int(gl_WorkGroupSize.x)];

// Of what the invocations of a row have, the largest, and the sum in order.
float largest_of_row(float x) {
  if (kSharers == 1) return x;
  const int me = int(gl_LocalInvocationID.x), first = me - me % kSharers;
  of_sharers[me] = x;
  subgroupBarrier();
  x = of_sharers[first];
  for (int i = 1; i < kSharers; i++) x = x > of_sharers[first + i] ? x : of_sharers[first + i];
  subgroupBarrier();
  return x;
}
float sum_of_row(float x) {
  if (kSharers == 1) return x;
  const int me = int(gl_LocalInvocationID.x), first = me - me % kSharers;
  of_sharers[me] = x;
  subgroupBarrier();
  x = of_sharers[first];
  for (int i = 1; i < kSharers; i++) x = x + of_sharers[first + i];
  subgroupBarrier();
  return x;
}
