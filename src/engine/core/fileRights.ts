// Whose requests may name which files of this machine. Everything that decides it is here.

import { realpathSync } from "node:fs";
import { tmpdir } from "node:os";
import { relative, sep } from "node:path";
import { isKept } from "../../store/homeFolder.js";
import type { FileRights, Reader } from "../../training/dataLocation.js";
import type { View } from "./caller.js";

/** The application that opened the engine names files in its own calls; all other requests are somebody's with a key. */
export function readerOf({ caller, strict }: View): Reader {
  if (!caller.owner) return "other";
  return strict ? "application" : "owner";
}

/**
 * The application reads what its process may read. The owner reads under the data roots: those that the operator named
 * (`dataRoots`, real paths), else the home and the system's temporary folder. Others read under roots that the operator named
 * only, never through links in a folder, and nothing that the engine keeps in its home.
 */
export function fileRights(reader: Reader, home: string, dataRoots: readonly string[] | null): FileRights {
  if (reader === "application") return { reader, roots: null, followLinks: true, isHidden: () => false };
  const folder = realpathSync(home);
  if (reader === "owner") {
    const roots = dataRoots ?? [folder, realpathSync(tmpdir())];
    return { reader, roots, followLinks: true, isHidden: () => false };
  }
  const isHidden = (path: string) => isKept(relative(folder, path).split(sep)[0]!);
  return { reader, roots: dataRoots ?? [], followLinks: false, isHidden };
}
