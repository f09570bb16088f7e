// Tiles of outputs, each of which is one chain: a workgroup has 16 by 16 invocations, an invocation kRows by kCols outputs.
// While a piece of the chains is computed from one half of the shared memory, the next one is on its way from memory; it is
// put into the other half, so that there is one barrier to a piece.
// A shader says what fetch() takes, for the piece that begins at `first`, and how stage() puts it into the half at `half`.
layout(local_size_x = 256) in;
layout(constant_id = 2) const int kOutputs = 0x44;  // kRows * 16 + kCols; 1, 2, 4 or 8 each
const int kRows = kOutputs >> 4, kCols = kOutputs & 15;
const int kTileRows = 16 * kRows, kTileCols = 16 * kCols;
const int kLongest = kTileRows > kTileCols ? kTileRows : kTileCols;
const int kDepth = 2048 / kLongest;  // elements of a chain in a piece: 16 to 128
const int kUnrolled = 8;
const int kHeld = (kLongest * kDepth / kGranule + 255) / 256;  // granules that an invocation fetches of a side, at most
const int kLeft = kTileRows / 4, kRight = kTileCols / 4;  // vectors of a step
const int kHalf = kDepth * (kLeft + kRight);

// [2][left [kDepth][kTileRows], right [kDepth][kTileCols]]; then outputs. A half is said by its first vector.
shared vec4 staged[2048];
float c[kRows * kCols];

int me() { return int(gl_LocalInvocationID.x); }
// A subgroup of 32 has 4 by 8 invocations, which read few vectors of a step.
int my_row() { return me() / 64 * 4 + me() % 32 / 8; }
int my_col() { return me() / 32 % 2 * 8 + me() % 8; }
// Where outputs lie in a tile: four of an invocation beside each other.
int row_of(int i) { return kRows < 4 ? my_row() * kRows + i : i / 4 * 64 + my_row() * 4 + i % 4; }
int col_of(int j) { return kCols < 4 ? my_col() * kCols + j : j / 4 * 64 + my_col() * 4 + j % 4; }

float staged_at(int i) { return staged[i >> 2][i & 3]; }
void put_staged(int i, float x) { staged[i >> 2][i & 3] = x; }
int left_at(int half_at, int step, int row) { return 4 * (half_at + step * kLeft) + row; }
int right_at(int half_at, int step, int col) { return 4 * (half_at + kDepth * kLeft + step * kRight) + col; }
// A granule's elements, of one step and so beside each other; `i` is that of the first.
void put_granule(int i, uvec4 g) {
  staged[i >> 2] = vec4(part(g, 0), part(g, 1), part(g, 2), part(g, 3));
  if (kBf16)
    staged[(i >> 2) + 1] =
        vec4(part(g, 4 % kGranule), part(g, 5 % kGranule), part(g, 6 % kGranule), part(g, 7 % kGranule));
}

void fetch(int first);
void stage(int half_at);

void take_step(int half_at, int step) {
  // Vectors are counted so that all of a step's, and of the steps after it, are constants from one address on.
  const int left = half_at + step * kLeft, right = half_at + kDepth * kLeft + step * kRight;
  float a[kRows], b[kCols];
  [[unroll]] for (int i = 0; i < kRows; i += 4) {
    if (kRows < 4) {
      [[unroll]] for (int j = 0; j < kRows; j++) {
        const int at = my_row() * kRows + j;
        a[j] = staged[left + (at >> 2)][at & 3];
      }
    } else {
      const vec4 four = staged[left + i / 4 * 16 + my_row()];
      [[unroll]] for (int j = 0; j < 4; j++) a[(i + j) % kRows] = four[j];
    }
  }
  [[unroll]] for (int i = 0; i < kCols; i += 4) {
    if (kCols < 4) {
      [[unroll]] for (int j = 0; j < kCols; j++) {
        const int at = my_col() * kCols + j;
        b[j] = staged[right + (at >> 2)][at & 3];
      }
    } else {
      const vec4 four = staged[right + i / 4 * 16 + my_col()];
      [[unroll]] for (int j = 0; j < 4; j++) b[(i + j) % kCols] = four[j];
    }
  }
  UNROLL for (int i = 0; i < kRows; i++)
    [[unroll]] for (int j = 0; j < kCols; j++) c[i * kCols + j] = mad(a[i], b[j], c[i * kCols + j]);
}

// The chains' elements from `first` on, which begins a granule, up to `end`.
void take_chains(int first, int end) {
  fetch(first);
  stage(0);
  barrier();
  int half_at = 0;
  LOOP for (int at = first; at < end; at += kDepth) {
    const int depth = min(kDepth, end - at);
    if (at + kDepth < end) fetch(at + kDepth);
    // Of a pair, the later one first.
    if (depth == kDepth) {
      LOOP for (int step = 0; step < kDepth; step += kUnrolled)
        UNROLL for (int i = 0; i < kUnrolled; i++) take_step(half_at, step + (i ^ (kStep - 1)));
    } else {
      LOOP for (int i = 0; i < round_up(depth, kStep); i++)
        if ((i ^ (kStep - 1)) < depth) take_step(half_at, i ^ (kStep - 1));
    }
    half_at = kHalf - half_at;
    if (at + kDepth < end) stage(half_at);
    barrier();
  }
}
