import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { AuthenticationError } from "../errors.js";
import type { AnnealClient } from "../types/client.js";
import { connect } from "./connect.js";

/**
 * The engine that another process serves from a home of this user, with the owner's key that is kept there.
 * @throws AuthenticationError when that key is not readable and none is given.
 */
export async function connectToHome(home: string, address: string, apiKey?: string): Promise<AnnealClient> {
  const file = join(home, "owner-key");
  const key = apiKey ?? (await readFile(file, "utf8").catch(() => null))?.trim();
  if (!key) {
    throw new AuthenticationError(`${file} cannot be read, so the engine at ${address} needs a key to be named`, {
      hint: "give --api-key",
    });
  }
  return connect(address, { apiKey: key });
}
