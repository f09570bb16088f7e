// Slices of k, which subgroups may have at the same time, and what their sum becomes.
const int kSlices = 8;

// In steps of kDepth.
int first_step(int slice, int k) {
  const int steps = steps_of(k), each = (steps + kSlices - 1) / kSlices;
  return min(slice * each, steps);
}

void finish_slices(int row, int col, float sum) {
  if (row < rows && col < n) finish(row, col, beginning(row, col) + sum * unit_of(x, row, ldx));
}
