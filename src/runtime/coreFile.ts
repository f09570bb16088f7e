// Where the compiled core of this machine lies: built here from the sources, or in the package of its platform.

import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { UnavailableError } from "../errors.js";
import { isOptionalDependency, packageFolder, packageRequire } from "../packageFiles.js";

/** Platforms that have a package with the core in it; on Linux one for each C library, of which an installer takes the one that fits. */
const PREBUILT = ["linux-x64", "linux-arm64", "linux-x64-musl", "linux-arm64-musl", "darwin-arm64", "win32-x64"];

const PLATFORM = `${process.platform}-${process.arch}`;
const PACKAGES = PREBUILT.filter((name) => name.startsWith(PLATFORM)).map((name) => `@anneal/${name}`);

const BUILD_HINT = "run `npx anneal build`, which compiles it here with a C++20 compiler";

/**
 * Loads the core: the one built in this package's folder if there is one, otherwise the platform package's.
 * @param version what the core must have been built for: the package's own version
 * @throws UnavailableError `native_addon_missing`, saying what was tried and what to do
 */
export function loadCore(version: string): unknown {
  const failures: string[] = [];
  for (const file of coreFiles()) {
    try {
      const core = packageRequire(file) as { version?: string };
      if (core.version === version) return core;
      failures.push(`${file} was built for anneal ${core.version ?? "of another time"}, not ${version}`);
    } catch (cause) {
      failures.push((cause as Error).message);
    }
  }
  const leftOut = PACKAGES.find(isOptionalDependency);
  const message =
    failures.length > 0
      ? `the compute core of anneal cannot be loaded: ${failures.join("; ")}`
      : leftOut
        ? `the compute core of anneal for ${PLATFORM} is not installed: its package ${leftOut} is an optional dependency, which the installer left out`
        : PACKAGES.length > 0
          ? `the compute core of anneal for ${PLATFORM} is not compiled yet, and this package was made without compiled ones`
          : `anneal has no prebuilt compute core for ${PLATFORM}`;
  throw new UnavailableError(message, {
    code: "native_addon_missing",
    hint: leftOut ? `install again with optional dependencies, or ${BUILD_HINT}` : BUILD_HINT,
  });
}

function coreFiles(): string[] {
  const files: string[] = [];
  const built = fileURLToPath(new URL("native/build/Release/anneal.node", packageFolder()));
  if (existsSync(built)) files.push(built);
  for (const name of PACKAGES) {
    try {
      files.push(packageRequire.resolve(name));
    } catch {
      // Not the package of this machine's C library.
    }
  }
  return files;
}
