import type { Device } from "../types/devices.js";
import { defineCommand } from "./command.js";
import { json, printListing } from "./listing.js";

export const gigabytes = (bytes: number): string => `${(bytes / 2 ** 30).toFixed(1)} GiB`;

export const devices = defineCommand({
  name: "devices",
  summary: "show what models can be computed on",
  flags: { json },
  async run(values) {
    const columns = [
      { title: "ID", cell: ({ id }: Device) => id },
      { title: "NAME", cell: ({ name }: Device) => name },
      { title: "INSTRUCTION SETS", cell: (device: Device) => device.instruction_sets.join(" ") },
      { title: "THREADS", cell: ({ threads }: Device) => threads },
      { title: "MEMORY", cell: ({ memory }: Device) => gigabytes(memory.total) },
      { title: "AVAILABLE", cell: ({ memory }: Device) => gigabytes(memory.available) },
    ];
    const { listDevices } = await import("../index.js");
    printListing(await listDevices(), columns, values.json);
    return 0;
  },
});
