import { homedir, userInfo } from "node:os";
import { join, parse } from "node:path";

/** The user's folder, which an empty HOME does not name; the root for whom the system knows none (no HOME, no entry among its users), as in containers. */
export function userFolder(): string {
  try {
    return homedir() || userInfo().homedir;
  } catch {
    return parse(process.cwd()).root;
  }
}

/** The home of a user who names none. */
export const defaultHome = (): string => join(userFolder(), ".anneal");

/** Where programs keep for this user what they can make or fetch again. */
export const userCacheFolder = (): string => process.env.XDG_CACHE_HOME || join(userFolder(), ".cache");

/** Where compiled code is kept: where Node is told to keep its own, if it is. */
export const compiledCodeFolder = (): string =>
  process.env.NODE_COMPILE_CACHE || join(userCacheFolder(), "anneal", "compiled");
