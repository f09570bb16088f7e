// Another platform than this machine's, named by ANNEAL_TEST_TARGET: its programs are compiled here and run by an emulator.

import { spawnSync } from "node:child_process";

const EMULATORS: Record<string, { program: string; packages: string }> = {
  "linux-arm64": { program: "qemu-aarch64", packages: "qemu-user libc6-arm64-cross libstdc++6-arm64-cross" },
  "win32-x64": { program: "/usr/lib/wine/wine64", packages: "wine64" },
};

/** A platform of `native/compile.mjs`; undefined: this machine's own. */
export const TARGET = process.env.ANNEAL_TEST_TARGET;

/** As Node names it. */
export const platformOf = (target: string): string => target.split("-")[0]!;

/** What stands before a program of the platform in a command. @throws Error naming what has to be installed */
export function emulatorOf(target: string): string[] {
  const { program, packages } = EMULATORS[target] ?? {};
  if (program === undefined) throw new Error(`ANNEAL_TEST_TARGET is one of ${Object.keys(EMULATORS).join(", ")}`);
  if (spawnSync(program, ["--version"], { stdio: "ignore" }).status !== 0) {
    throw new Error(
      `programs of ${target} are run by ${program}, which is not there (Debian: apt install ${packages})`,
    );
  }
  return [program];
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
