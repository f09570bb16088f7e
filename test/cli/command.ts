import { type ChildProcess, type StdioOptions, spawn } from "node:child_process";
import { fileURLToPath, pathToFileURL } from "node:url";

const main = fileURLToPath(new URL("../../src/cli/main.ts", import.meta.url));
const tsx = pathToFileURL(fileURLToPath(import.meta.resolve("tsx"))).href;

const children = new Set<ChildProcess>();

/** Node's arguments for a command. */
export const nodeArguments = (args: readonly string[]): string[] => ["--import", tsx, main, ...args];

/** Starts the command line in a process of its own. */
export function start(
  args: readonly string[],
  environment: Record<string, string> = {},
  stdio: StdioOptions = "pipe",
): ChildProcess {
  const child = spawn(process.execPath, nodeArguments(args), { env: { ...process.env, ...environment }, stdio });
  children.add(child.on("close", () => children.delete(child)));
  return child;
}

/** What a process printed until its end. */
export function finish(child: ChildProcess, input = ""): Promise<{ code: number | null; out: string; err: string }> {
  let out = "";
  let err = "";
  child.stdout?.on("data", (chunk) => {
    out += chunk;
  });
  child.stderr!.on("data", (chunk) => {
    err += chunk;
  });
  child.stdin!.end(input);
  return new Promise((resolve) => child.on("close", (code) => resolve({ code, out, err })));
}

export const command = (args: readonly string[], input?: string) => finish(start(args), input);

/** Ends what a failed test left running. */
export function killAll(): void {
  for (const child of children) child.kill("SIGKILL");
}
