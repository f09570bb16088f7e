import { describe, expect, it } from "vitest";
import { openBytes } from "./tokenBytes.js";

/** What the platform's own streaming decoder shows of `bytes` before it knows what follows. */
const shown = (bytes: Uint8Array) => new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes, { stream: true });

describe("open bytes", () => {
  it("are those that a streaming decoder holds back", () => {
    const edges = [0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec];
    edges.push(0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xff);
    let held = 0;
    for (const a of edges) {
      for (const b of edges) {
        for (const c of edges) {
          for (const d of [[], ...edges.map((edge) => [edge])]) {
            const bytes = Uint8Array.from([a, b, c, ...d]);
            const closed = bytes.subarray(0, bytes.length - openBytes(bytes));
            const whole = new TextDecoder("utf-8", { ignoreBOM: true }).decode(closed);
            if (whole !== shown(bytes)) expect.fail(`bytes ${bytes}: ${openBytes(bytes)} open`);
            if (closed.length < bytes.length) held++;
          }
        }
      }
    }
    expect(held).toBeGreaterThan(1000);
  });
});
