// Whole numbers of 64 bits, the low half first: sums of probabilities in units of 2^-31 (sampling/exact_share.h).

uvec2 plus(uvec2 a, uvec2 b) {
  uint carry;
  const uint low = uaddCarry(a.x, b.x, carry);
  return uvec2(low, a.y + b.y + carry);
}
uvec2 minus(uvec2 a, uvec2 b) {
  uint borrow;
  const uint low = usubBorrow(a.x, b.x, borrow);
  return uvec2(low, a.y - b.y - borrow);
}
bool less(uvec2 a, uvec2 b) { return a.y < b.y || (a.y == b.y && a.x < b.x); }

uvec2 times(uint a, uint b) {
  uint high, low;
  umulExtended(a, b, high, low);
  return uvec2(low, high);
}

// a / b, rounded down; below 2^22.
uint quotient_of(uvec2 a, uint b) {
  uint q = 0u;
  for (uint bit = 1u << 21; bit != 0u; bit >>= 1)
    if (!less(a, times(q + bit, b))) q += bit;
  return q;
}

// total * fraction / 2^53, rounded down; total below 2^53, fraction at most 2^53.
uvec2 exact_share(uvec2 total, uvec2 fraction) {
  const uvec2 first = times(total.x, fraction.x), second = times(total.y, fraction.x),
              third = times(total.x, fraction.y), fourth = times(total.y, fraction.y);
  const uvec2 middle = plus(plus(uvec2(first.y, 0u), uvec2(second.x, 0u)), uvec2(third.x, 0u));
  const uvec2 high =
      plus(plus(fourth, uvec2(middle.y, 0u)), plus(uvec2(second.y, 0u), uvec2(third.y, 0u)));
  return uvec2(high.x << 11 | middle.x >> 21, high.y << 11 | high.x >> 21);
}
