import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { expect, test } from "vitest";

/** The arrows between the files of the compute core, by their includes. native/README.md draws those between rooms. */
const native = join(import.meta.dirname, "../../native");
const files = readdirSync(native, { recursive: true, encoding: "utf8" })
  .map(normalize)
  .filter((file) => /\.(cpp|h)$/.test(file) && !file.startsWith("build"));

interface Arrow {
  from: string;
  to: string;
}

function arrows(of: readonly string[]): Arrow[] {
  return of.flatMap((from) =>
    [...readFileSync(join(native, from), "utf8").matchAll(/^#include "([^"]+)"/gm)].map(([, named]) => ({
      from,
      to: normalize(join(dirname(from), named!)),
    })),
  );
}

/** A header and its implementation are one. */
const unit = (file: string) => file.replace(/\.(cpp|h)$/, "");

/** The folder; the list of devices stands above the devices, and what they implement below them. */
const room = (file: string) => (/backends.devices\./.test(file) ? "backends/devices" : dirname(file));

/** What the core is made of: no programs of its tests. */
const core = files.filter((file) => !/_(test|bench|reference|fixture)\.|reference\.h$/.test(file));

/** A way from something back to it, or null. */
function circle(list: readonly Arrow[]): string[] | null {
  const next = new Map<string, Set<string>>();
  for (const { from, to } of list) if (from !== to) next.set(from, (next.get(from) ?? new Set()).add(to));
  const done = new Set<string>();
  const visit = (at: string, path: readonly string[]): string[] | null => {
    if (path.includes(at)) return [...path.slice(path.indexOf(at)), at];
    if (done.has(at)) return null;
    for (const to of next.get(at) ?? []) {
      const found = visit(to, [...path, at]);
      if (found !== null) return found;
    }
    done.add(at);
    return null;
  };
  for (const from of next.keys()) {
    const found = visit(from, []);
    if (found !== null) return found;
  }
  return null;
}

test("a circle is found", () => {
  expect(
    circle([
      { from: "a", to: "b" },
      { from: "b", to: "c" },
    ]),
  ).toBeNull();
  expect(
    circle([
      { from: "a", to: "b" },
      { from: "b", to: "c" },
      { from: "c", to: "b" },
    ]),
  ).toEqual(["b", "c", "b"]);
});

test("no file includes itself by way of others", () => {
  expect(files.length).toBeGreaterThan(100);
  expect(circle(arrows(files).map(({ from, to }) => ({ from: unit(from), to: unit(to) })))).toBeNull();
});

test("no room includes itself by way of others", () => {
  expect(circle(arrows(core).map(({ from, to }) => ({ from: room(from), to: room(to) })))).toBeNull();
});

test("devices are known to their list alone, and JavaScript to the addon alone", () => {
  const intoDevices = arrows(core).filter(
    ({ from, to }) => /^backends.\w+.*[\\/]/.test(to) && !room(from).startsWith(room(to).split(/[\\/]/, 2).join("/")),
  );
  expect(intoDevices.filter(({ from }) => room(from) !== "backends/devices")).toEqual([]);
  expect(arrows(core).filter(({ from, to }) => room(to) === "addon" && room(from) !== "addon")).toEqual([]);
  const withNode = core.filter((file) =>
    /#include <(node_api|js_native_api)/.test(readFileSync(join(native, file), "utf8")),
  );
  expect(new Set(withNode.map(room))).toEqual(new Set(["addon"]));
});

test("the arrows between rooms that native/README.md names are among those it says", () => {
  const readme = readFileSync(join(native, "README.md"), "utf8");
  const said = new Map(
    [...readme.matchAll(/^\| `([\w/]+)` \| ((?:`[\w/]+`(?:, )?)+) \|$/gm)].map(([, from, to]) => [
      from!,
      [...to!.matchAll(/`([\w/]+)`/g)].map(([, name]) => name!),
    ]),
  );
  const rooms = new Set([...said].flatMap(([from, to]) => [from, ...to]));
  const found = new Map<string, Set<string>>();
  for (const { from, to } of arrows(core)) {
    const [a, b] = [room(from), room(to)];
    if (a !== b && rooms.has(a) && rooms.has(b)) found.set(a, (found.get(a) ?? new Set()).add(b));
  }
  for (const [from, to] of found)
    expect(
      [...to].filter((name) => !said.get(from)?.includes(name)),
      `what ${from} includes and the table lacks`,
    ).toEqual([]);
});
