import { readFileSync } from "node:fs";
import { packageFolder } from "../packageFiles.js";

/** Of this library, as its package says. */
export function packageVersion(): string {
  const file = new URL("package.json", packageFolder);
  return (JSON.parse(readFileSync(file, "utf8")) as { version: string }).version;
}
