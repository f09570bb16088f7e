import { describe, expect, it } from "vitest";
import { errorForOthers, ModelFileError, UnavailableError } from "./errors.js";
import { allThrowingFileErrors, asFileError, isOutOfFiles, refusalOf, throwingFileErrors } from "./fileErrors.js";

/** As Node makes them. */
const refusal = (code: string, syscall: string, paths: { path?: string; dest?: string } = {}): Error => {
  const { path, dest } = paths;
  const where = path === undefined ? "" : ` '${path}'${dest === undefined ? "" : ` -> '${dest}'`}`;
  return Object.assign(new Error(`${code}: no, ${syscall}${where}`), { code, syscall, errno: -1, ...paths });
};

describe("what the operating system refuses about a file", () => {
  it.each([
    ["EIO", "disk"],
    ["EROFS", "file system that can be written"],
    ["EMFILE", "ulimit -n"],
    ["ENFILE", "ulimit -n"],
    ["EACCES", "rights"],
    ["EPERM", "rights"],
  ])("names it, and what helps: %s", (code, hint) => {
    const cause = refusal(code, "open", { path: "/home/a" });
    const error = asFileError(cause, "/home") as UnavailableError;
    expect(error).toBeInstanceOf(UnavailableError);
    expect(error).toMatchObject({ code: "file_unusable", status: 503, param: "/home/a", cause });
    expect(error.message).toBe(`/home/a cannot be used: ${code}: no`);
    expect(error.hint).toContain(hint);
    expect(refusalOf(error)).toBe(cause);
  });

  it("is of the place where a file has no path, as one that is written to, and of where it goes, where it has two", () => {
    expect(asFileError(refusal("EIO", "write"), "/home")).toMatchObject({
      message: "a file in /home cannot be used: EIO: no, write",
      param: "/home",
    });
    const copied = refusal("EMFILE", "copyfile", { path: "/home/a", dest: "/copy/a" });
    expect(asFileError(copied, "/copy")).toMatchObject({ message: "/copy/a cannot be used: EMFILE: no" });
  });

  it("is thrown by all that is wrapped, and all else as it is", async () => {
    const wrapped = allThrowingFileErrors("/home", {
      now(error: Error) {
        throw error;
      },
      later: (error: Error) => Promise.reject(error),
    });
    const file = throwingFileErrors(
      ([path]) => path,
      (path: string, code: string) => {
        throw refusal(code, "fsync", path === "" ? {} : undefined);
      },
    );
    expect(() => wrapped.now(refusal("EIO", "write"))).toThrow("a file in /home cannot be used");
    await expect(wrapped.later(refusal("EROFS", "open", { path: "/b" }))).rejects.toThrow("/b cannot be used");
    expect(() => file("/home/c", "EIO")).toThrow("a file in /home/c cannot be used");
    const others = [
      refusal("ENOENT", "open", { path: "/x" }),
      new Error("else"),
      new ModelFileError("/x", "is missing"),
    ];
    for (const other of [...others, Object.assign(new Error("EACCES"), { code: "EACCES" })]) {
      expect(asFileError(other, "/home")).toBe(other);
      await expect(wrapped.later(other)).rejects.toBe(other);
      expect(refusalOf(other)).toBe(other);
    }
    expect(isOutOfFiles(asFileError(refusal("EMFILE", "open", { path: "/x" }), "/home"))).toBe(true);
  });

  it("says to others than the owner not where", () => {
    const error = asFileError(refusal("EIO", "open", { path: "/home/secret" }), "/home");
    const told = errorForOthers(error) as UnavailableError;
    expect(told).toMatchObject({ code: "file_unusable", status: 503, param: null });
    expect(JSON.stringify([told.message, told.hint, told])).not.toContain("secret");
  });
});
