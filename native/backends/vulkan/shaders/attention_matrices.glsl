// What attention's shaders on cooperative matrices that go through a tile's keys share: kKeys of them at a time lie in shared
// memory as float16, whose largest number stands for what is larger, and kAcross subgroups have a band of kM rows together.
// An invocation has a part of one row of its band: kEach columns of every kN.
const int kBands = kSubgroups / kAcross, kWidth = int(gl_WorkGroupSize.x) / kSubgroups;
const int kSharers = kWidth / kM, kEach = kN / kSharers;  // invocations of a row
const int kColumns = kKeys / kN, kMyColumns = kAcross < kColumns ? kColumns / kAcross : 1;
const int kSlices = kDim / kN, kMySlices = (kSlices + kAcross - 1) / kAcross;
// Granules of a key, and of the values of an element: an odd number meets fewer of the same banks.
const int kKeyLd = kDim / 8 + 1, kValueLd = kDim > 128 ? kKeys / 8 : kKeys / 8 + 1;
const int kKeysGranules = kKeys * kDim / 8;
const int kPer = (kKeysGranules + int(gl_WorkGroupSize.x) - 1) / int(gl_WorkGroupSize.x);
const int kScoreMatrices = kAcross > 1 ? kBands * kColumns : kBands;

shared uvec4 sums[(kScoreMatrices > kSubgroups ? kScoreMatrices : kSubgroups) * kM * kN / 4];

// Granule j of a page's keys from `key` on, [kDim / 8][kKeys] over the elements, and of their values, [kKeys / 8][kDim].
uvec4 staged_key(Granules page, int head, int key, int j) {
  const int g = j / kKeys;
  return g < kHeadGranules ? page.at[head * page_granules(kHeadDim) + g * kPage + key % kPage + j % kKeys] : uvec4(0);
}
uvec4 staged_value(Granules page, int head, int key, int j) {
  const int first = head * page_granules(kHeadDim) + key_granules(kHeadDim), d = j % kDim;
  return j < kKeysGranules && d < kHeadDim ? page.at[first + (key % kPage / 8 + j / kDim) * kHeadDim + d] : uvec4(0);
}
// Of `written` keys; values of slots that no token has written, which may hold anything, are zero.
uvec4 written_values(uvec4 granule, int g, int written) {
  if (g * 8 + 8 > written)
    for (int k = 0; k < 4; k++) {
      const int left = written - g * 8 - 2 * k;
      granule[k] = left > 1 ? granule[k] : left == 1 ? granule[k] & 0xffffu : 0u;
    }
  return granule;
}
