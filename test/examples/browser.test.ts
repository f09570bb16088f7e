// A model is trained in Node and exported; a page (browser/chat.html) runs it in a browser with transformers.js. Needs Chromium, and in
// ANNEAL_TEST_TRANSFORMERS_JS a folder in which `npm install @huggingface/transformers` was run.

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { CONVERSATIONS, nativeGreedy, trainedModel } from "../onnx/trained.js";

const installed = process.env.ANNEAL_TEST_TRANSFORMERS_JS;
const browser = ["chromium", "chromium-browser", "google-chrome"].find(
  (name) => spawnSync(name, ["--version"], { stdio: "ignore" }).status === 0,
);

const TYPES: Record<string, string> = {
  ".html": "text/html",
  ".js": "text/javascript",
  ".mjs": "text/javascript",
  ".wasm": "application/wasm",
  ".json": "application/json",
};

const dtypes = ["float32", "float16", "int8", "int4"] as const;

test.skipIf(!installed || !browser).each(dtypes)("what was trained in Node answers in a browser: %s", async (dtype) => {
  const folder = mkdtempSync(join(tmpdir(), "browser-"));
  const { engine, model } = await trainedModel(join(folder, "home"));
  const [native] = await nativeGreedy(engine, "local/p/m", 24);
  await engine.models.export(model.id, { path: join(folder, "trained"), format: "onnx", dtype });
  await engine.close();

  const places: [string, string][] = [
    ["/transformers/", join(installed!, "node_modules/@huggingface/transformers/dist")],
    ["/onnxruntime/", join(installed!, "node_modules/onnxruntime-web/dist")],
    ["/models/trained/", join(folder, "trained")],
    ["/", fileURLToPath(new URL("browser", import.meta.url))],
  ];
  const server = createServer(async (request, response) => {
    const path = new URL(request.url!, "http://localhost").pathname;
    const [prefix, place] = places.find(([start]) => path.startsWith(start))!;
    const content = await readFile(join(place, path.slice(prefix.length))).catch(() => null);
    response.writeHead(content === null ? 404 : 200, {
      "content-type": TYPES[extname(path)] ?? "application/octet-stream",
    });
    response.end(content);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const question = CONVERSATIONS[0]![0]!.content;
  const page = `http://127.0.0.1:${port}/chat.html?ask=${encodeURIComponent(question)}`;
  const flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"];
  const process = spawn(browser!, [...flags, `--user-data-dir=${join(folder, "profile")}`, page]);
  try {
    const answer = await titleOf(process);
    expect(answer).not.toContain("failed");
    // Four bits may say something else.
    if (dtype !== "int4") expect(answer).toBe(native!.text);
  } finally {
    process.kill();
    await once(process, "exit");
    server.closeAllConnections();
    server.close();
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  }
});

/** The page's title once it is the model's reply, by the browser's own interface. */
async function titleOf(process: ChildProcess): Promise<string> {
  let port: string | undefined;
  for await (const text of process.stderr!) {
    port = /DevTools listening on ws:\/\/127\.0\.0\.1:(\d+)/.exec(String(text))?.[1];
    if (port !== undefined) break;
  }
  process.stderr!.resume();
  for (;;) {
    const pages = (await (await fetch(`http://127.0.0.1:${port}/json`)).json()) as { type: string; title: string }[];
    const title = pages.find(({ type }) => type === "page")?.title ?? "";
    if (title !== "" && !title.startsWith("A model") && !title.includes("chat.html")) return title;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}
