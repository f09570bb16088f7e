import * as os from "node:os";
import { afterEach, expect, it, vi } from "vitest";
import { hubCacheFolder } from "./hub/hubCache.js";
import { defaultHome, userFolder } from "./userFolder.js";

vi.mock("node:os", async (original) => ({ ...(await original<typeof os>()), homedir: vi.fn(), userInfo: vi.fn() }));
afterEach(() => vi.unstubAllEnvs());

it("is the system's, and the root where that knows none", () => {
  vi.mocked(os.homedir).mockReturnValue("/home/somebody");
  expect(userFolder()).toBe("/home/somebody");
  vi.mocked(os.homedir).mockReturnValue("");
  vi.mocked(os.userInfo).mockReturnValue({ homedir: "/home/anybody" } as ReturnType<typeof os.userInfo>);
  expect(userFolder()).toBe("/home/anybody");
  vi.mocked(os.homedir).mockImplementation(() => {
    throw new Error("uv_os_homedir returned ENOENT");
  });
  expect(userFolder()).toBe("/");
  for (const name of ["HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"]) vi.stubEnv(name, "");
  expect(hubCacheFolder()).toBe("/.cache/huggingface/hub");
  expect(defaultHome()).toBe("/.anneal");
});
