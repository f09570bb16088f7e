// Rows of attention on cooperative matrices as float16, and what the invocations that share a row put together.

const float kLargestHalf = 65504.0;
uvec4 finite_halves(uvec4 g) {
  for (int i = 0; i < 4; i++)
    g[i] = packHalf2x16(clamp(vec2(widened(g[i] & 0xffffu), as_float(g[i] & 0xffff0000u)), -kLargestHalf, kLargestHalf));
  return g;
}

// What subgroups make left matrices of: [kM][kK] each, from `lefts[my_left]` on. An invocation puts down four elements of its part
// of a row at a time, whose place is counted in fours.
shared uvec4 lefts[kSubgroups * kM * kK / 8];
int left_place(int row, int part) {
  return kEach % 8 == 0 ? (row * kK + part * kEach) / 8 * 2 : (row * kK + part * kEach) / 4;
}
void put_left(int my_left, int at, vec4 four) {
  const uvec2 halves = uvec2(packHalf2x16(four.xy), packHalf2x16(four.zw));
  if ((at & 1) == 0)
    lefts[my_left + at / 2].xy = halves;
  else
    lefts[my_left + at / 2].zw = halves;
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
