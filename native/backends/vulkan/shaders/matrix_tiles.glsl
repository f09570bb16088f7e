// Tiles of many rows on cooperative matrices: a workgroup has kTileRows by kTileCols outputs, each subgroup a part of them
// that is 32 wide. While a step of kDepth is multiplied out of shared memory, the next one is put beside it, and the one
// after that is on its way from memory. kTransposed: x W instead of x W^T.
layout(constant_id = 11) const int kTileRows = 64;
layout(constant_id = 12) const int kTileCols = 64;

const int kPartCols = 32, kPartsAcross = kTileCols / kPartCols;
const int kPartRows = kTileRows * kPartsAcross / kSubgroups, kDown = kPartRows / kM, kAcross = kPartCols / kN;

// Granules of a step, and those of them that an invocation brings: of x, then of weights.
const int kRowGranules = kTileRows * kDepthGranules, kColGranules = kTileCols * kDepthGranules;
const int kOwnRows = (kRowGranules + kThreads - 1) / kThreads, kOwnCols = (kColGranules + kThreads - 1) / kThreads;
const int kOwn = kOwnRows + kOwnCols;

// Weights of a step in shared memory: [output][k], or [k][output] of a transposed product.
const int kColLd = kTransposed ? kTileCols / 8 + 1 : kLd;
const int kColsAt = kTileRows * kLd, kStage = kColsAt + (kTransposed ? kDepth : kTileCols) * kColLd;
shared uvec4 stages[2 * kStage];

// Sums of kM rows of a part, in the place of what is multiplied no longer.
const int kSumLd = kPartCols / 4 + 1, kEach = kM * kPartCols / kSubgroupThreads, kAtOnce = kEach < 8 ? kEach : 8;

int tile_row() { return int(gl_WorkGroupID.x) * kTileRows; }
int tile_col() { return int(gl_WorkGroupID.y) * kTileCols; }
int part_row() { return int(gl_SubgroupID) / kPartsAcross * kPartRows; }
int part_col() { return int(gl_SubgroupID) % kPartsAcross * kPartCols; }

int own(int i, int count) { return min(i * kThreads + int(gl_LocalInvocationID.x), count - 1); }

// What lies beyond rows and outputs is computed of others', and left; beyond k, rows are zeros.
uvec4 fetched(int step, int i) {
  if (i < kOwnRows) {
    const ivec2 at = brought(own(i, kRowGranules));
    return x.at[min(tile_row() + at.x, rows - 1) * ldx + step * kDepthGranules + at.y];
  }
  const int at = own(i - kOwnRows, kColGranules), granules = granules_of(k);
  if (kTransposed)
    return weights_of(w, k, step * kDepth + at % kDepth, min(tile_col() / 8 + at / kDepth, granules - 1));
  return weights_of(w, k, min(tile_col() + at % kTileCols, n - 1), min(step * kDepthGranules + at / kTileCols, granules - 1));
}

void put_down(int stage, int i, uvec4 granule) {
  if (i < kOwnRows) {
    const ivec2 at = brought(own(i, kRowGranules));
    stages[stage * kStage + at.x * kLd + at.y] = granule;
  } else {
    const int at = own(i - kOwnRows, kColGranules), across = kTransposed ? kDepth : kTileCols;
    stages[stage * kStage + kColsAt + at % across * kColLd + at / across] = halves(granule);
  }
}

void finish_outputs(int row[kAtOnce], int col[kAtOnce], float sum[kAtOnce]);

// Outputs that are sums of `steps` steps: of chains of `each` steps which are added in order, or, if kTransposed, one chain.
void compute_tile(int steps, int each) {
  Sum sums[kDown][kAcross], total[kDown][kAcross];
  [[unroll]] for (int i = 0; i < kDown; i++)
    [[unroll]] for (int j = 0; j < kAcross; j++) sums[i][j] = Sum(0.0), total[i][j] = Sum(0.0);
  uvec4 held[2 * kOwn];  // of the next step and the one after it
  [[unroll]] for (int i = 0; i < kOwn; i++) held[i] = fetched(0, i);
  [[unroll]] for (int i = 0; i < kOwn; i++) held[kOwn + i] = fetched(min(1, steps - 1), i);
  [[unroll]] for (int i = 0; i < kOwn; i++) put_down(0, i, held[i]);
  barrier();
  int left_of_slice = each;
  for (int pair = 0; pair < steps; pair += 2)
    [[unroll]] for (int stage = 0; stage < 2; stage++) {
      const int step = pair + stage;
      if (step < steps) {
        const int later = min(step + 2, steps - 1);
        [[unroll]] for (int i = 0; i < kOwn; i++) held[stage * kOwn + i] = fetched(later, i);
        [[unroll]] for (int at = 0; at < kDepth; at += kK) {
          Right right[kAcross];
          [[unroll]] for (int j = 0; j < kAcross; j++) {
            if (kTransposed)
              coopMatLoadNV(right[j], stages, stage * kStage + kColsAt + at * kColLd + (part_col() + j * kN) / 8, kColLd, false);
            else
              coopMatLoadNV(right[j], stages, stage * kStage + kColsAt + (part_col() + j * kN) * kColLd + at / 8, kColLd, true);
          }
          [[unroll]] for (int i = 0; i < kDown; i++) {
            Left left;
            coopMatLoadNV(left, stages, stage * kStage + (part_row() + i * kM) * kLd + at / 8, kLd, false);
            [[unroll]] for (int j = 0; j < kAcross; j++) sums[i][j] = coopMatMulAddNV(left, right[j], sums[i][j]);
          }
        }
        [[unroll]] for (int i = 0; i < kOwn; i++) put_down(1 - stage, i, held[(1 - stage) * kOwn + i]);
        barrier();
        left_of_slice--;
        if (!kTransposed && (left_of_slice == 0 || step == steps - 1)) {
          [[unroll]] for (int i = 0; i < kDown; i++)
            [[unroll]] for (int j = 0; j < kAcross; j++) total[i][j] = total[i][j] + sums[i][j], sums[i][j] = Sum(0.0);
          left_of_slice = each;
        }
      }
    }
  const int mine = int(gl_SubgroupID) * kM * kSumLd;
  [[unroll]] for (int i = 0; i < kDown; i++) {
    [[unroll]] for (int j = 0; j < kAcross; j++) {
      if (kTransposed)
        coopMatStoreNV(sums[i][j], stages, mine + j * kN / 4, kSumLd, false);
      else
        coopMatStoreNV(total[i][j], stages, mine + j * kN / 4, kSumLd, false);
    }
    subgroupBarrier();
    [[unroll]] for (int e = 0; e < kEach; e += kAtOnce) {
      int row[kAtOnce], col[kAtOnce];
      float sum[kAtOnce];
      [[unroll]] for (int f = 0; f < kAtOnce; f++) {
        const int at = (e + f) * kSubgroupThreads + int(gl_SubgroupInvocationID), c = at % kPartCols;
        row[f] = tile_row() + part_row() + i * kM + at / kPartCols, col[f] = tile_col() + part_col() + c;
        sum[f] = as_float(stages[mine + at / kPartCols * kSumLd + c / 4][c % 4]);
      }
      finish_outputs(row, col, sum);
    }
    subgroupBarrier();
  }
}
