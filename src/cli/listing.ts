import { toggle } from "./flags.js";
import { bold } from "./terminalText.js";

export const json = toggle("print JSON");

interface Column<T> {
  title: string;
  cell(entry: T): string | number | null;
}

/**
 * Prints a list: with `asJson` as an array of all there is to know, on a terminal as a table, elsewhere as lines of tab-separated
 * cells for other programs.
 */
export function printListing<T>(entries: readonly T[], columns: readonly Column<T>[], asJson = false): void {
  if (asJson) {
    console.log(JSON.stringify(entries, null, 2));
    return;
  }
  const rows = entries.map((entry) => columns.map(({ cell }) => String(cell(entry) ?? "-")));
  if (!process.stdout.isTTY) {
    for (const row of rows) console.log(row.join("\t"));
    return;
  }
  const titles = columns.map(({ title }) => title);
  const widths = titles.map((title, c) => Math.max(title.length, ...rows.map((row) => row[c]!.length)));
  const line = (row: readonly string[]) =>
    row
      .map((cell, c) => cell.padEnd(widths[c]!))
      .join("  ")
      .trimEnd();
  console.log(bold(line(titles)));
  for (const row of rows) console.log(line(row));
}
