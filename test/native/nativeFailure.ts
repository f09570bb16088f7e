import { expect } from "vitest";
import { AnnealError } from "../../src/errors.js";

/** The error of a call, whether thrown or rejected. */
export async function failure(call: () => unknown): Promise<AnnealError> {
  try {
    await call();
  } catch (error) {
    expect(error).toBeInstanceOf(AnnealError);
    return error as AnnealError;
  }
  throw new Error("the call succeeded");
}
