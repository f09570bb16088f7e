// A registry of packages on this machine: it has the tarballs that it is given, and nothing else.

import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { basename } from "node:path";

interface Release {
  manifest: { name: string; version: string };
  file: string;
  content: Buffer;
}

export interface Registry {
  url: string;
  /** Paths that were asked for. */
  requests: string[];
  close(): void;
}

function readRelease(path: string): Release {
  const { stdout } = spawnSync("tar", ["-xzOf", path, "package/package.json"], { encoding: "utf8" });
  return { manifest: JSON.parse(stdout), file: basename(path), content: readFileSync(path) };
}

export async function serveRegistry(tarballs: readonly string[]): Promise<Registry> {
  const releases = tarballs.map(readRelease);
  const requests: string[] = [];
  const server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url!, "http://registry").pathname).slice(1);
    requests.push(path);
    const wanted = releases.find(({ file }) => path === `-/${file}`);
    if (wanted) return void response.end(wanted.content);
    const found = releases.filter(({ manifest }) => manifest.name === path);
    if (found.length === 0) return void response.writeHead(404, { "content-type": "application/json" }).end("{}");
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify(packument(found, url)));
  });
  await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  return { url, requests, close: () => void server.close() };
}

function packument(releases: readonly Release[], url: string): object {
  const versions = releases.map(({ manifest, file, content }) => {
    const digest = (algorithm: string, encoding: "base64" | "hex") =>
      createHash(algorithm).update(content).digest(encoding);
    const dist = {
      tarball: `${url}-/${file}`,
      integrity: `sha512-${digest("sha512", "base64")}`,
      shasum: digest("sha1", "hex"),
    };
    return [manifest.version, { ...manifest, dist }] as const;
  });
  const { name, version } = releases.at(-1)!.manifest;
  // Longer ago than any least age that an installer demands.
  const time = Object.fromEntries(versions.map(([released]) => [released, "2020-01-01T00:00:00.000Z"]));
  return { name, "dist-tags": { latest: version }, versions: Object.fromEntries(versions), time };
}
