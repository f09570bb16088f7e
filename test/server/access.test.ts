import { execFile } from "node:child_process";
import { request as httpRequest } from "node:http";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { listen } from "../../src/server/listen.js";
import { Harness } from "./harness.js";

let server: Harness;
beforeAll(async () => {
  server = await Harness.open({}, { chatBodyLimit: 4096, bodyLimit: 8192 });
});
afterAll(() => server?.close());

const id = "5f0a8f3c-6a51-4a3e-9c55-6d7f0f8f2a10";

/** Every endpoint, the side routes too. */
const endpoints = [
  ["POST", "/v1/chat/completions"],
  ["POST", "/v1/chat/completions/"],
  ["POST", "/v1/responses"],
  ["POST", "/v1/embeddings"],
  ["POST", "/v1/messages"],
  ["POST", "/v1/messages/count_tokens"],
  ["POST", "/v1/completions"],
  ["POST", "/v1/load_lora_adapter"],
  ["POST", "/v1/unload_lora_adapter"],
  ["POST", "/v1/preview/models"],
  ["DELETE", `/v1/preview/models/${id}`],
  ["DELETE", `/v1/preview/models/${id}/checkpoints`],
  ["GET", `/v1/preview/models/${id}/checkpoints`],
  ["POST", `/v1/preview/models/${id}/log`],
  ["POST", "/v1/preview/sft-training-jobs"],
  ["POST", "/v1/preview/training-jobs"],
  ["GET", `/v1/preview/training-jobs/${id}`],
  ["GET", `/v1/preview/training-jobs/${id}/events`],
  ["GET", "/v1/health"],
  ["GET", "/v1/system-check"],
  ["GET", "/v1/models"],
  ["GET", "/v1/preview/base-models"],
  ["PUT", "/v1/preview/artifacts/e/p/n/f"],
  ["GET", "/metrics"],
  ["GET", "/load"],
  ["POST", "/tokenize"],
  ["POST", "/detokenize"],
  ["GET", "/tokenizer_info"],
  ["POST", "/inference/v1/generate"],
  ["GET", "/openapi.json"],
] as const;

describe("keys", () => {
  it.each(endpoints)("%s %s needs one", async (method, path) => {
    const headers: Record<string, string>[] = [
      { authorization: "" },
      { authorization: "Bearer wrong" },
      { authorization: `Basic ${server.engine.apiKey}` },
      { authorization: `Bearer ${server.engine.apiKey}x` },
    ];
    for (const header of headers) {
      const { status, body } = await server.call(method, path, method === "GET" ? undefined : {}, header);
      expect(status).toBe(401);
      const message = expect.any(String);
      if (path.startsWith("/v1/preview/")) expect(body).toEqual({ detail: message });
      else if (path.startsWith("/v1/messages")) {
        expect(body).toEqual({ type: "error", error: { type: "authentication_error", message } });
      } else {
        expect(body).toEqual({
          error: { message, type: "invalid_request_error", param: null, code: "invalid_api_key" },
        });
      }
    }
  });

  it("are needed neither by probes nor for the version", async () => {
    const open = (method: string, path: string) => server.engine.fetch(new Request(`http://engine${path}`, { method }));
    for (const [method, path] of [
      ["GET", "/health"],
      ["HEAD", "/health"],
      ["GET", "/ping"],
      ["POST", "/ping"],
    ] as const) {
      const response = await open(method, path);
      expect([response.status, await response.text()]).toEqual([200, ""]);
    }
    const { version } = (await (await open("GET", "/version")).json()) as { version: string };
    expect(version).toMatch(/^\d+\.\d+\.\d+/);
    expect((await open("POST", "/health")).status).toBe(401);
    expect(await server.call("GET", "/load")).toMatchObject({ status: 200, body: { server_load: 0 } });
  });

  it("of an entity see and make only what is that entity's", async () => {
    const mine = await server.makeModel("mine");
    const { key } = await server.engine.keys.create({ entity: "team" });
    const as = { authorization: `Bearer ${key}` };
    const body = { project: "test", name: "theirs", base_model: "anneal/tiny" };
    const theirs = await server.call("POST", "/v1/preview/models", body, as);
    expect(theirs.body.entity).toBe("team");
    expect((await server.call("POST", "/v1/preview/models", { ...body, entity: "local" }, as)).status).toBe(403);
    expect((await server.call("GET", `/v1/preview/models/${mine}/checkpoints`, undefined, as)).status).toBe(403);
    expect((await server.call("DELETE", `/v1/preview/models/${mine}`, undefined, as)).status).toBe(403);
    const job = await server.call("POST", "/v1/preview/training-jobs", { model_id: mine, trajectory_groups: [] });
    const jobPath = `/v1/preview/training-jobs/${job.body.id}`;
    expect((await server.call("GET", jobPath, undefined, as)).status).toBe(403);
    expect((await server.call("GET", `${jobPath}/events`, undefined, as)).status).toBe(403);
    expect(
      (await server.call("POST", "/v1/preview/training-jobs", { model_id: mine, trajectory_groups: [] }, as)).status,
    ).toBe(403);
    expect((await server.call("PUT", "/v1/preview/artifacts/local/p/n/f", "x", as)).status).toBe(403);
    const chat = { messages: [{ role: "user", content: "hi" }], model: "wandb-artifact:///local/test/mine" };
    const refused = await server.call("POST", "/v1/chat/completions", chat, as);
    expect(refused).toMatchObject({ status: 403, body: { error: { param: "model" } } });
    // What the engine keeps in its home is not theirs by its path either.
    const { store } = server.engine.core;
    const [adapter, model_id] = [store.files.checkpointFolder(mine, 0), theirs.body.id];
    const ownerKey = `${store.home}/owner-key`;
    const kl = { kl_penalty_coef: 0.1, kl_ref_adapter_path: adapter };
    for (const [path, request, field] of [
      ["models/import", { ...body, name: "taken", path: adapter }, "path"],
      ["sft-training-jobs", { model_id, training_data_url: ownerKey }, "training_data_url"],
      ["training-jobs", { model_id, trajectory_groups: [], experimental_config: kl }, "kl_ref_adapter_path"],
    ] as const) {
      const hidden = await server.call("POST", `/v1/preview/${path}`, request, as);
      const [detail] = hidden.body.detail as unknown as { loc: string[]; msg: string }[];
      expect([hidden.status, detail!.loc.at(-1), detail!.msg]).toEqual([
        422,
        field,
        expect.stringContaining("outside"),
      ]);
    }
    // Bare names are looked up in the key's own entity.
    expect((await server.call("POST", "/v1/chat/completions", { ...chat, model: "mine" }, as)).status).toBe(404);
    const listed = (await server.call("GET", "/v1/models", undefined, as)).body.data.map((model) => model.id);
    expect(listed).toEqual(["anneal/tiny", "wandb-artifact:///team/test/theirs"]);
    expect((await server.call("GET", "/v1/preview/keys", undefined, as)).status).toBe(403);
    // The owner sees all.
    expect((await server.call("GET", `/v1/preview/models/${theirs.body.id}`)).status).toBe(200);
    const all = (await server.call("GET", "/v1/preview/keys")).body as unknown as { id: string; prefix: string }[];
    expect(all.some((entry) => key.startsWith(entry.prefix) && !("key" in entry))).toBe(true);
    await server.call("DELETE", `/v1/preview/keys/${all.at(-1)!.id}`);
    expect((await server.call("GET", "/v1/models", undefined, as)).status).toBe(401);
  });
});

describe("bodies", () => {
  const small = { messages: [{ role: "user", content: "x" }] };

  it.each([
    ["{", "json_invalid"],
    ["", "json_invalid"],
    ["nul", "json_invalid"],
    [new Uint8Array([0x22, 0xff, 0x22]), "json_invalid"],
  ])("that are not JSON (%j) are refused", async (body, type) => {
    const chat = await server.call("POST", "/v1/chat/completions", body);
    expect([chat.status, chat.body.detail[0]?.type, chat.body.error.type]).toEqual([
      422,
      type,
      "invalid_request_error",
    ]);
    const preview = await server.call("POST", "/v1/preview/models", body);
    expect([preview.status, preview.body.detail[0]?.loc]).toEqual([422, ["body"]]);
    expect(preview.body.error).toBeUndefined();
  });

  it("that are compressed are refused by the name of their encoding", async () => {
    const headers = { "content-encoding": "gzip" };
    const answer = await server.call("POST", "/v1/chat/completions", small, headers);
    expect(answer).toMatchObject({ status: 422, body: { detail: [{ loc: ["body"], type: "content_encoding" }] } });
    expect(answer.body.detail[0]!.msg).toContain("gzip");
    const plain = { "content-encoding": "identity" };
    expect((await server.call("POST", "/v1/chat/completions", small, plain)).status).toBe(200);
  });

  it("of another content type are refused", async () => {
    const headers = { "content-type": "text/plain" };
    const answer = await server.call("POST", "/v1/chat/completions", small, headers);
    expect(answer).toMatchObject({ status: 422, body: { detail: [{ loc: ["body"], type: "content_type" }] } });
    const fine = { "content-type": "application/json; charset=utf-8" };
    expect((await server.call("POST", "/v1/preview/models", {}, fine)).body.detail[0]?.loc).toEqual([
      "body",
      "project",
    ]);
  });

  it("cut short by a client that went away are no failure of the server", async () => {
    const failed = vi.spyOn(server.engine.logger, "error");
    const answers: number[] = [];
    const handler = async (request: Request) => {
      const response = await server.handler(request);
      answers.push(response.status);
      return response;
    };
    const listening = await listen(handler, { host: "127.0.0.1", port: 0 });
    try {
      const request = httpRequest(`${listening.address}/v1/chat/completions`, {
        method: "POST",
        headers: {
          authorization: `Bearer ${server.engine.apiKey}`,
          "content-type": "application/json",
          "content-length": 500,
        },
      });
      request.on("error", () => undefined);
      request.write('{"mess', () => setTimeout(() => request.destroy(), 50));
      await vi.waitFor(() => expect(answers).toEqual([400]), { timeout: 5000 });
      expect(failed).not.toHaveBeenCalled();
    } finally {
      failed.mockRestore();
      await listening.close(0);
    }
  });

  it("beyond the limit are refused, announced or not", async () => {
    const long = JSON.stringify({ messages: [{ role: "user", content: "x".repeat(5000) }] });
    const announced = await server.call("POST", "/v1/chat/completions", long);
    expect(announced).toMatchObject({ status: 413, body: { error: { code: "payload_too_large" } } });
    const preview = await server.call("POST", "/v1/preview/training-jobs", "x".repeat(9000));
    expect(preview).toMatchObject({ status: 413, body: { detail: expect.any(String) } });
    for (const path of ["/v1/preview/training-jobs", "/v1/preview/sft-training-jobs"]) {
      expect((await server.call("POST", path, "x".repeat(5000))).status).toBe(422);
    }
    for (const path of ["/v1/preview/models", "/v1/load_lora_adapter"]) {
      expect((await server.call("POST", path, "x".repeat(5000))).status).toBe(413);
    }

    const listening = await listen(server.handler, { host: "127.0.0.1", port: 0 });
    try {
      const status = await new Promise<number>((resolve, reject) => {
        const request = httpRequest(`${listening.address}/v1/preview/artifacts/local/p/n/f`, {
          method: "PUT",
          headers: { authorization: `Bearer ${server.engine.apiKey}` },
        });
        request.on("response", (response) => resolve(response.statusCode!));
        request.on("error", reject);
        // No length is announced: chunks until the server has had enough.
        for (let i = 0; i < 10; i++) request.write(Buffer.alloc(1024));
      });
      expect(status).toBe(413);
    } finally {
      await listening.close(0);
    }
  });

  it("beyond the limit are refused before the client is cut off", async () => {
    const listening = await listen(server.handler, { host: "127.0.0.1", port: 0 });
    try {
      // A process of its own: in this one, the body has been sent before the server looks at it.
      const script = `
        const body = "x".repeat(20_000_000);
        const headers = { authorization: "Bearer ${server.engine.apiKey}", "content-type": "application/json" };
        const response = await fetch("${listening.address}/v1/chat/completions", { method: "POST", headers, body });
        console.log(response.status);`;
      for (let i = 0; i < 3; i++) {
        const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", script]);
        expect(stdout.trim()).toBe("413");
      }
    } finally {
      await listening.close(0);
    }
  });

  it("that nest without end do no harm", async () => {
    const deep = `{"messages":${"[".repeat(1500)}${"]".repeat(1500)}}`;
    expect((await server.call("POST", "/v1/chat/completions", deep)).status).toBe(422);
  });
});

describe("paths", () => {
  it("that are not there are a 404 in their family's words", async () => {
    expect(await server.call("GET", "/v1/nothing")).toMatchObject({
      status: 404,
      body: { error: { code: "unknown_path" } },
    });
    expect(await server.call("GET", "/v1/preview/nothing")).toMatchObject({
      status: 404,
      body: { detail: expect.any(String) },
    });
    expect((await server.call("POST", "/v1/preview/models/", {})).status).toBe(404);
  });

  it("with another method are a 405 that says which", async () => {
    const answer = await server.call("GET", "/v1/chat/completions");
    expect([answer.status, answer.headers.get("allow")]).toEqual([405, "POST"]);
    const preview = await server.call("PUT", "/v1/preview/models", {});
    expect(preview.body).toEqual({ detail: expect.any(String) });
    expect(preview.headers.get("x-error-code")).toBe("method_not_allowed");
    const head = await server.request("HEAD", "/v1/health");
    expect([head.status, await head.text()]).toEqual([200, ""]);
    expect((await server.call("PUT", "/v1/health", {})).headers.get("allow")).toBe("GET, HEAD");
    for (const [path, allow] of [
      ["/health", "GET, HEAD"],
      ["/ping", "GET, HEAD, POST"],
      ["/version", "GET, HEAD"],
    ] as const) {
      const other = await server.call("DELETE", path);
      expect([other.status, other.headers.get("allow")]).toEqual([405, allow]);
    }
    const metrics = await (await server.request("GET", "/metrics")).text();
    for (const [handler, method, status] of [
      ["/v1/chat/completions", "GET", "4xx"],
      ["/v1/health", "HEAD", "2xx"],
      ["none", "GET", "4xx"],
    ]) {
      expect(metrics).toContain(`http_requests_total{handler="${handler}",method="${method}",status="${status}"}`);
    }
  });
});

describe("the engine itself", () => {
  it("is healthy", async () => {
    expect(await server.call("GET", "/v1/health")).toMatchObject({ status: 200, body: { status: "ok" } });
    const check = { success: true, duration: expect.any(Number), errors: [] };
    expect(await server.call("GET", "/v1/system-check")).toMatchObject({
      status: 200,
      body: { api: true, database: check, cpu_queue: check, gpu_queue: check },
    });
  });

  it("says so when it is not", async () => {
    const broken = await Harness.open();
    broken.engine.core.store.close();
    const { status, body } = await broken.call("GET", "/v1/system-check");
    expect(status).toBe(503);
    expect(body).toMatchObject({ api: true, database: { success: false, errors: [expect.any(String)] } });
    expect(await broken.call("GET", "/v1/models")).toMatchObject({ status: 503, body: { error: { code: "closed" } } });
    await broken.close();
  });

  it("says that a job waits for room on the disk", async () => {
    const full = await Harness.open();
    const { store } = full.engine.core;
    const start = store.startJob;
    const isFull = vi.spyOn(store, "startJob").mockImplementation(() => {
      throw Object.assign(new Error("no space left on device"), { code: "ENOSPC" });
    });
    const model_id = await full.makeModel("waiting");
    const { id } = (await full.call("POST", "/v1/preview/training-jobs", { model_id, trajectory_groups: [] })).body;
    const system = () => full.call("GET", "/v1/system-check");
    const job = () => full.call("GET", `/v1/preview/training-jobs/${id}`);
    await vi.waitFor(async () => expect(await job()).toMatchObject({ body: { waits_for: "disk_space" } }));
    const errors = ["training jobs that wait for room on the disk: 1"];
    expect(await system()).toMatchObject({ status: 503, body: { cpu_queue: { success: false, errors } } });
    isFull.mockImplementation(start);
    await full.engine.trainingJobs.wait(id);
    expect(await job()).toMatchObject({ body: { status: "succeeded", waits_for: null } });
    expect((await system()).status).toBe(200);
    await full.close();
  });

  it("keeps what went wrong inside to itself", async () => {
    const broken = await Harness.open();
    const { models } = broken.engine.core.store;
    for (const [name, method] of Object.entries(models)) {
      if (typeof method !== "function") continue;
      Object.assign(models, {
        [name]: () => {
          throw new Error("a secret");
        },
      });
    }
    expect(await broken.call("GET", "/v1/models")).toMatchObject({
      status: 500,
      body: { error: { message: "Internal server error", type: "server_error", param: null, code: "internal_error" } },
    });
    await broken.close();
  });

  it("describes itself", async () => {
    const { body } = await server.call("GET", "/openapi.json");
    expect(body.openapi).toBe("3.1.0");
    for (const [method, path] of endpoints) {
      const pattern = path.replace(id, path.includes("training-jobs") ? "{training_job_id}" : "{model_id}");
      const known = pattern.replace("/e/p/n/f", "/{entity}/{project}/{name}/{file}");
      expect(body.paths[known]?.[method.toLowerCase()], `${method} ${known}`).toBeDefined();
    }
    const sent = (path: string) => {
      const { $ref } = body.paths[path]!.post!.requestBody.content["application/json"].schema;
      return body.components.schemas[$ref.replace("#/components/schemas/", "")]!;
    };
    const create = sent("/v1/preview/models");
    expect(create.required.sort()).toEqual(["base_model", "name", "project"]);
    const chat = sent("/v1/chat/completions");
    expect(Object.keys(chat.properties)).toEqual(expect.arrayContaining(["messages", "seed", "structured_outputs"]));
  });
});
