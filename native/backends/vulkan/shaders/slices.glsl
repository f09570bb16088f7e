// Slices of k, which subgroups may have at the same time, and what their sum becomes.
const int kSlices = 8;

// In steps of kDepth.
int slice_steps(int k) { return (steps_of(k) + kSlices - 1) / kSlices; }
int first_step(int slice, int k) { return min(slice * slice_steps(k), steps_of(k)); }

// What adapters add to outputs; what that takes from memory of all of them is on its way at the same time.
void add_low_ranks(int row[kAtOnce], int col[kAtOnce], inout float c[kAtOnce]) {
  const bool any = present(uvec2(adapters));
  Addresses of_row = Addresses(either(uvec2(adapters), uvec2(x)));
  Granules rows_z = Granules(either(uvec2(z), uvec2(w)));
  Granules b[kAtOnce];
  int rank[kAtOnce], most = 0;
  [[unroll]] for (int i = 0; i < kAtOnce; i++) {
    const uvec2 mine = of_row.at[any ? row[i] : 0];
    const bool has = any && present(mine);
    LowRank low = Adapter(has ? mine : uvec2(w)).at[has ? projection : 0];
    const bool adapted = has && present(uvec2(low.b));
    b[i] = Granules(adapted ? uvec2(low.b) : uvec2(w));
    rank[i] = adapted ? low.rank : 0;
    most = max(most, rank[i]);
  }
  for (int g = 0; g < granules_of(most); g++) {
    uvec4 left[kAtOnce], right[kAtOnce];
    [[unroll]] for (int i = 0; i < kAtOnce; i++) {
      const int granules = granules_of(rank[i]), mine = min(g, granules - 1);
      left[i] = rows_z.at[granules > 0 ? row[i] * ldz + mine : 0];
      right[i] = b[i].at[granules > 0 ? (col[i] / 32 * granules + mine) * 32 + col[i] % 32 : 0];
    }
    [[unroll]] for (int i = 0; i < kAtOnce; i++) c[i] = chain(c[i], left[i], right[i], rank[i] - g * kGranule);
  }
}

// kAtOnce outputs of an invocation; those beyond rows and n are none.
void finish_slices(int row[kAtOnce], int col[kAtOnce], float sum[kAtOnce]) {
  const bool biased = present(uvec2(bias));
  Floats addends = Floats(either(uvec2(bias), uvec2(w)));
  float c[kAtOnce];
  int r[kAtOnce], o[kAtOnce];
  [[unroll]] for (int i = 0; i < kAtOnce; i++) {
    r[i] = min(row[i], rows - 1), o[i] = min(col[i], n - 1);
    const float addend = addends.at[biased ? o[i] : 0];
    c[i] = beginning(r[i], o[i]) + sum[i] * unit_of(x, r[i], ldx);
    if (biased) c[i] = c[i] + addend;
  }
  if (present(uvec2(adapters))) add_low_ranks(r, o, c);
  [[unroll]] for (int i = 0; i < kAtOnce; i++)
    if (row[i] < rows && col[i] < n) write(row[i], col[i], c[i]);
}
