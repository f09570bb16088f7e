import { vi } from "vitest";

/** What a command prints to standard output when it is run in this process; its rejections are the caller's. */
export async function printed(run: () => Promise<number>): Promise<{ code: number; out: string }> {
  const log = vi.spyOn(console, "log").mockImplementation(() => undefined);
  try {
    const code = await run();
    return { code, out: log.mock.calls.map(([line]) => `${line}\n`).join("") };
  } finally {
    log.mockRestore();
  }
}
