/** The known name that was most likely meant; undefined when none resembles the given one. */
export function nearest(given: string, known: Iterable<string>): string | undefined {
  const wanted = given.toLowerCase();
  let best: string | undefined;
  let least = Number.POSITIVE_INFINITY;
  for (const name of known) {
    const edits = isBeginning(wanted, name) ? 0.5 : editDistance(wanted, name);
    if (edits < least && edits <= Math.max(1, Math.min(given.length, name.length) / 3)) {
      best = name;
      least = edits;
    }
  }
  return best;
}

const isBeginning = (given: string, name: string) => given.length > 1 && name.startsWith(given);

/** Insertions, deletions, replacements and swaps of neighbours (optimal string alignment). */
function editDistance(a: string, b: string): number {
  const rows = [Array.from({ length: b.length + 1 }, (_, j) => j)];
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = rows[i - 1]![j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const swapped = isSwap ? rows[i - 2]![j - 2]! + 1 : replaced;
      row[j] = Math.min(rows[i - 1]![j]! + 1, row[j - 1]! + 1, replaced, swapped);
    }
    rows.push(row);
  }
  return rows[a.length]![b.length]!;
}
