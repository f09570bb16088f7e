import { homedir } from "node:os";
import { parse } from "node:path";

/** The user's folder; the root for whom the system knows none (no HOME, no entry among its users), as in containers. */
export function userFolder(): string {
  try {
    return homedir();
  } catch {
    return parse(process.cwd()).root;
  }
}
