/** How many numbers a tensor of this shape has: one where it has no dimensions. */
export const elementCount = (shape: readonly number[]): number => shape.reduce((product, size) => product * size, 1);
