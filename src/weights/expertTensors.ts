// Tensors of layers with experts, by Hugging Face's names.

/** Which experts a token goes to hangs on it, so that it is never quantised. */
export const isRouter = (name: string): boolean => name.endsWith(".mlp.gate.weight");

/** A matrix of one expert; `stacked` is what those of all experts of the layer are called where they are one tensor. null: it is none. */
export function expertMatrix(name: string): { layer: number; expert: number; stacked: string } | null {
  const [, layer, expert, projection] = /^model\.layers\.(\d+)\.mlp\.experts\.(\d+)\.(\w+)\.weight$/.exec(name) ?? [];
  if (layer === undefined) return null;
  return {
    layer: Number(layer),
    expert: Number(expert),
    stacked: `model.layers.${layer}.mlp.experts.${projection}.weight`,
  };
}
