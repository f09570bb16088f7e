// What becomes of a product's outputs, and its parameters. Kinds: logits (float32, scaled and capped), rounded rows of T,
// and what is added to rows of the residual stream.
const int kLogits = 0, kRounded = 1, kResidual = 2;
layout(constant_id = 1) const int kind = kRounded;

layout(push_constant) uniform Parameters {
  Granules x;  // [rows][ldx]
  Granules w;
  Floats bias;  // or null
  uvec2 out_at;
  Floats from;           // residual rows that are added to
  Addresses adapters;    // of each row's, or null
  Granules z;            // s A x of the adapted rows [rows][ldz]
  int rows, n, k;
  int ldx, ldz;  // granules
  int ldo;       // elements
  int projection;
  float scale;  // of logits, or of what is added to the residual
  float inverse_cap, cap;
};

// What the chain of an output begins with.
float beginning(int row, int col) {
  return kind == kResidual && scale == 1.0 && row < rows && col < n ? from.at[row * ldo + col] : 0.0;
}

float with_bias(int col, float c) {
  const bool biased = present(uvec2(bias));
  const float addend = Floats(either(uvec2(bias), uvec2(w))).at[biased ? col : 0];
  return biased ? c + addend : c;
}

// The row's adapter of the projection; b null: it has none.
LowRank adapter_of(int row) {
  const bool adapted = present(uvec2(adapters));
  const uvec2 mine = Addresses(either(uvec2(adapters), uvec2(x))).at[adapted ? row : 0];
  const bool has_one = adapted && present(mine);
  LowRank low = Adapter(has_one ? mine : uvec2(w)).at[has_one ? projection : 0];
  if (!has_one) low.b = Granules(uvec2(0));
  return low;
}

float with_adapter(int row, int col, float c) {
  LowRank low = adapter_of(row);
  if (present(uvec2(low.b))) {
    const int granules = granules_of(low.rank);
    LOOP for (int g = 0; g < granules; g++)
      c = chain(c, z.at[row * ldz + g], low.b.at[(col / 32 * granules + g) * 32 + col % 32], low.rank - g * kGranule);
  }
  return c;
}

void write(int row, int col, float c) {
  if (row >= rows || col >= n) return;
  const int at = row * ldo + col;
  if (kind == kRounded) {
    put(Elements(out_at), at, c);
  } else if (kind == kResidual) {
    Floats(out_at).at[at] = flushed(scale == 1.0 ? c : mad(scale, c, from.at[at]));
  } else {
    if (scale != 1.0) c = scale * c;
    Floats(out_at).at[at] = cap > 0.0 ? tangent(c * inverse_cap) * cap : c;
  }
}

void finish(int row, int col, float c) {
  if (row < rows && col < n) write(row, col, with_adapter(row, col, with_bias(col, c)));
}
