/** What models are multiplied with; see the option `precision`. */
export type Precision = "exact" | "fast";

/** What a machine has to compute with. */
export interface Device {
  /** What the option `device` calls it: "cpu", "vulkan:0". */
  id: string;
  /** "software": a processor in the place of a GPU. */
  kind: "cpu" | "integrated" | "discrete" | "virtual" | "software" | "other";
  /** As the machine calls it. */
  name: string;
  /** Of a processor: those of its own that anneal has kernels for, best last: that one is used, all with the same bits. */
  instruction_sets: readonly string[];
  /** Compute threads by default; 0 of a GPU. */
  threads: number;
  /** In bytes: `total` that the machine has, `available` that this process could take now. */
  memory: { total: number; available: number };
  /** What the option `precision` may be: "fast" where a processor has AMX, or a GPU cooperative matrices. */
  precisions: readonly Precision[];
  /** Absent: it is a processor. */
  gpu?: {
    /** Its driver's name and version. */
    driver: string;
    /** Whether its arithmetic gives the processor's bits, as tried on a few thousand numbers. */
    exact: boolean;
    /** Whether it rounds a multiply-add once; where it does not, that is done in double precision, which is slow. */
    fused_multiply_add: boolean;
    /** Whether numbers below 2^-126 become zero, as on the processor. Where they do not, `exact` is said of all others. */
    flushes_denormals: boolean;
    /** Why models cannot run on it; null: they can. */
    problem: string | null;
  };
}

/** How fast a GPU could be, of which what is computed on it is a share. */
export interface DeviceRate {
  /** Read from its memory. */
  bytes_per_second: number;
  /** Of multiply-adds as models are computed, two each. */
  operations_per_second: number;
  /** On cooperative matrices, which precision "fast" multiplies with; null: it has none. */
  matrix_operations_per_second: number | null;
}
