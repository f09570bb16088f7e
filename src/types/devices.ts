/** What a machine has to compute with. */
export interface Device {
  /** What the option `device` calls it: "cpu". */
  id: string;
  /** As the machine calls it. */
  name: string;
  /** Those of them that anneal has kernels for, best last: that one is used. */
  instruction_sets: readonly string[];
  /** Compute threads by default. */
  threads: number;
  /** In bytes: `total` that the machine has, `available` that this process could take now. */
  memory: { total: number; available: number };
}
