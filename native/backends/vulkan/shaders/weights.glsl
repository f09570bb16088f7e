// Matrices W[n][k] lie in blocks of 32 outputs: [n / 32][k / kGranule][32] granules, zeros beyond n and k.

int granules_of(int k) { return (k + kGranule - 1) / kGranule; }

// The chain of a sum taken up over the first `count` elements of a granule, in the order of all products here: as pairs
// of bfloat16 the later of which goes first, or one by one.
float chain(float c, uvec4 x, uvec4 w, int count) {
#ifdef BF16
  for (int i = 0; i < kGranule; i += 2) {
    if (i + 1 < count) c = mad(part(x, i + 1), part(w, i + 1), c);
    if (i < count) c = mad(part(x, i), part(w, i), c);
  }
#else
  for (int i = 0; i < kGranule; i++)
    if (i < count) c = mad(part(x, i), part(w, i), c);
#endif
  return c;
}
