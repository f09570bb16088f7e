// Adapters as products see them: every row has its own, or none.
struct LowRank {
  Granules a, b;  // rows of A [rank][inputs] and B [outputs][rank], as weights lie; null: not adapted
  int rank;
  float scale;
};
layout(buffer_reference, std430, buffer_reference_align = 8) buffer Adapter { LowRank at[]; };  // [layers][projections]
