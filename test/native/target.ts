// Another platform than this machine's, named by ANNEAL_TEST_TARGET: its programs are compiled here and run by an emulator.

import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";

export const MUSL_LOADER = "/lib/ld-musl-x86_64.so.1";

/** A loader stands in no command: programs name it themselves. */
const EMULATORS: Record<string, { program: string; packages: string; isLoader?: boolean }> = {
  "linux-arm64": { program: "qemu-aarch64", packages: "qemu-user libc6-arm64-cross libstdc++6-arm64-cross" },
  "linux-x64-musl": {
    program: "/lib/ld-musl-x86_64.so.1",
    packages: "musl, of version 1.2.4 or later",
    isLoader: true,
  },
  "win32-x64": { program: "/usr/lib/wine/wine64", packages: "wine64" },
};

/** A platform of `native/compile.mjs`; undefined: this machine's own. */
export const TARGET = process.env.ANNEAL_TEST_TARGET;

/** As Node names it. */
export const platformOf = (target: string): string => target.split("-")[0]!;

/** What stands before a program of the platform in a command. @throws Error naming what has to be installed */
export function emulatorOf(target: string): string[] {
  const { program, packages, isLoader } = EMULATORS[target] ?? {};
  if (program === undefined) throw new Error(`ANNEAL_TEST_TARGET is one of ${Object.keys(EMULATORS).join(", ")}`);
  if (isLoader ? !existsSync(program) : spawnSync(program, ["--version"], { stdio: "ignore" }).status !== 0) {
    throw new Error(
      `programs of ${target} are run by ${program}, which is not there (Debian: apt install ${packages})`,
    );
  }
  return isLoader ? [] : [program];
}

/** Where the emulator finds the platform's libraries; Node asks for a later Windows than Wine says to be. */
export function emulatorEnvironment(): NodeJS.ProcessEnv {
  const defaults = {
    QEMU_LD_PREFIX: "/usr/aarch64-linux-gnu",
    WINEDEBUG: "-all",
    NODE_SKIP_PLATFORM_CHECK: "1",
  };
  return { ...defaults, ...process.env };
}
