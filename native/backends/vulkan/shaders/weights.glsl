// Matrices W[n][k] lie in blocks of 32 outputs: [n / 32][k / kGranule][32] granules, zeros beyond n and k.

int granules_of(int k) { return (k + kGranule - 1) / kGranule; }

// The chain of a sum taken up over the first `count` elements of a granule, in the order of all products here: as pairs
// of bfloat16 the later of which goes first, or one by one.
float chain(float c, uvec4 x, uvec4 w, int count) {
  for (int step = 0; step < kGranule; step += kStep)
    for (int i = step + kStep - 1; i >= step; i--)
      if (i < count) c = mad(part(x, i), part(w, i), c);
  return c;
}
// Four elements of chain().
float chain_of_four(float c, vec4 x, vec4 w) {
  if (kBf16) return mad(x.z, w.z, mad(x.w, w.w, mad(x.x, w.x, mad(x.y, w.y, c))));
  return mad(x.w, w.w, mad(x.z, w.z, mad(x.y, w.y, mad(x.x, w.x, c))));
}
