// A server of another engine in a process of its own, with those that it starts.

import { type ChildProcess, spawn } from "node:child_process";
import { createServer } from "node:net";

export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

export class ServerProcess {
  readonly #command: string;
  readonly #args: readonly string[];
  readonly #environment: Record<string, string>;
  /** An address that answers once the server is there. */
  readonly #health: string;
  #process: ChildProcess | null = null;

  constructor(command: string, args: readonly string[], environment: Record<string, string>, health: string) {
    this.#command = command;
    this.#args = args;
    this.#environment = environment;
    this.#health = health;
  }

  async start(): Promise<void> {
    const env = { ...process.env, ...this.#environment };
    const child = spawn(this.#command, this.#args, { detached: true, stdio: "ignore", env });
    this.#process = child;
    for (;;) {
      if (child.exitCode !== null) throw new Error(`${this.#command} ended with ${child.exitCode}`);
      const isUp = await fetch(this.#health)
        .then((response) => response.ok)
        .catch(() => false);
      if (isUp) return;
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
  }

  kill(): void {
    const pid = this.#process?.pid;
    this.#process = null;
    try {
      if (pid !== undefined) process.kill(-pid, "SIGKILL");
    } catch {
      // It has ended already.
    }
  }
}
