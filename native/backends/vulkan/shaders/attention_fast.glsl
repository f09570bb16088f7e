// Attention of the fast family, whose products are done on cooperative matrices. What it keeps of a row of queries is
// put together of units of kUnit keys, in ascending order: a unit has a maximum, a sum and an output of its own, all from
// zero, so that they are the same whoever computes the unit, beside whatever other rows, and may wait until they are merged.
#include "queries.glsl"

// kDim: elements of a head, with zeros up to whole matrices of every shape.
const int kHeadGranules = kHeadDim / 8, kDim = (kHeadDim + 31) / 32 * 32;
const int kUnit = kDim > 128 ? 32 : kPage, kUnitsOfPage = kPage / kUnit;

// Probabilities, and so sums and outputs, are 2^kLift times what they are: so float16 has small ones, and a sum of products with
// them is far above what one with a zero, of a key that the row does not see, could be aligned to.
const float kLift = 15.0, kLowered = 1.0 / 32768.0;

int first_unit(Tile tile, int window) { return window > 0 ? max(0, tile.position - window + 1) / kUnit : 0; }
int last_unit(Tile tile) { return (tile.position + tile.tokens - 1) / kUnit; }

// Where a row's units lie while they wait, floats: the maximum, the sum, the output.
const int kWaitingFloats = 2 + kHeadDim;
int waiting_at(int tile, int head, int rows, int row, int units) {
  return ((tile * kKvHeads + head) * rows + row) * units * kWaitingFloats;
}

// What a row has of the units before is multiplied with x, what it has of the next one with y. One of which it sees
// nothing, whose maximum is kLowest, leaves all as it was.
vec2 shares(inout float maximum, float other) {
  const float now = other > maximum ? other : maximum;
  const vec2 share = vec2(exponential(maximum - now), exponential(other - now));
  maximum = now;
  return share;
}
float taken_up(float before, float next, vec2 share) { return mad(next, share.y, before * share.x); }
