// Queries of a workgroup, and the heads they have.
layout(constant_id = 1) const int kHeads = 1;
layout(constant_id = 2) const int kKvHeads = 1;
layout(constant_id = 3) const int kHeadDim = 64;

const int kGroup = kHeads / kKvHeads;

// Tokens [row, row + tokens) of a sequence, at `position` and on, with heads [head, head + heads) of each group.
struct Tile {
  int row, tokens, position, head, heads, table;
};
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Tiles { Tile at[]; };
