import type { Device } from "../types/devices.js";
import { defineCommand } from "./command.js";
import { json, printListing } from "./listing.js";

export const gigabytes = (bytes: number): string => `${(bytes / 2 ** 30).toFixed(1)} GiB`;

function abilities({ instruction_sets, kind, gpu, precisions }: Device): string {
  const isFast = precisions.includes("fast");
  if (!gpu) return [...instruction_sets, ...(isFast ? ["(fast: amx)"] : [])].join(" ");
  if (gpu.problem !== null) return `not usable: ${gpu.problem}`;
  const words = [kind, gpu.exact ? "the processor's bits" : "bits of its own"];
  if (!gpu.fused_multiply_add) words.push("multiply-adds in double precision");
  if (isFast) words.push("fast on cooperative matrices");
  return words.join(", ");
}

export const devices = defineCommand({
  name: "devices",
  summary: "show what models can be computed on",
  flags: { json },
  async run(values) {
    const columns = [
      { title: "ID", cell: ({ id }: Device) => id },
      { title: "NAME", cell: ({ name }: Device) => name },
      { title: "COMPUTES WITH", cell: abilities },
      { title: "THREADS", cell: ({ threads }: Device) => threads || "" },
      { title: "MEMORY", cell: ({ memory }: Device) => gigabytes(memory.total) },
      { title: "AVAILABLE", cell: ({ memory }: Device) => gigabytes(memory.available) },
    ];
    const { listDevices } = await import("../index.js");
    printListing(await listDevices(), columns, values.json);
    return 0;
  },
});
