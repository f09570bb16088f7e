import type { TrainingRow } from "../../src/types/trainingSession.js";

/** Made-up tokens, of which the second half is trained. */
export const rows: TrainingRow[] = [0, 1].map((r) => {
  const tokens = Array.from({ length: 24 }, (_, i) => (i * 31 + r * 7) % 500);
  return { tokens, trained: tokens.map((_, i) => i >= 12) };
});

export const sumOf = (values: readonly Float32Array[]) =>
  values.reduce((sum, row) => sum + row.reduce((a, b) => a + b, 0), 0);
