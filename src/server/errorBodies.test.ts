import { expect, it } from "vitest";
import { errorResponse } from "./errorBodies.js";

it("tells a client that the disk is full, and nothing about other errors of the inside", async () => {
  const full = errorResponse(Object.assign(new Error("database or disk is full"), { code: "SQLITE_FULL" }), "detail");
  expect([full.status, full.headers.get("x-error-code")]).toEqual([503, "disk_full"]);
  expect(await full.json()).toEqual({ detail: expect.stringMatching(/^the disk is full/) });
  for (const cause of [new Error("secret"), null, undefined, "secret"]) {
    const other = errorResponse(cause, "detail");
    expect([other.status, await other.json()]).toEqual([500, { detail: "Internal server error" }]);
  }
});
