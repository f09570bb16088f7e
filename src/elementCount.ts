/** How many numbers a tensor of this shape has: one where it has no dimensions. */
export const elementCount = (shape: readonly number[]): number => shape.reduce((product, size) => product * size, 1);

/** How many all of them have. */
export const elementsOf = (tensors: readonly { readonly shape: readonly number[] }[]): number =>
  tensors.reduce((sum, { shape }) => sum + elementCount(shape), 0);
