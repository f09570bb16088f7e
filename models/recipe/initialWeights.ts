import { config, type NamedTensor, tensorShapes } from "./folder.js";
import { Random } from "./random.js";

/**
 * Random weights: norms 1; embedding with deviation 0.02; projections 1 / sqrt(inputs), those that write into the residual
 * stream smaller by sqrt(2 x layers) (GPT-2's rule).
 */
export function initialWeights(seed: number): NamedTensor[] {
  const random = new Random(seed);
  const normal = (): number => Math.sqrt(-2 * Math.log(1 - random.next())) * Math.cos(2 * Math.PI * random.next());
  return tensorShapes().map(({ name, shape }) => {
    const count = shape.reduce((product, size) => product * size, 1);
    if (shape.length === 1) return { name, shape, data: new Float32Array(count).fill(1) };
    const residual = /(o_proj|down_proj)/.test(name) ? 1 / Math.sqrt(2 * config.num_hidden_layers) : 1;
    const deviation = name.includes("embed_tokens") ? config.initializer_range : residual / Math.sqrt(shape[1]!);
    return { name, shape, data: Float32Array.from({ length: count }, () => deviation * normal()) };
  });
}
