/** Four digits of a number that is not whole. */
export function shortNumber(value: number): string {
  return Number.isInteger(value) ? String(value) : value.toPrecision(4);
}
