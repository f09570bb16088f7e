// A server of tests that speaks Tinker's interface, over this machine's own core: what it computes is real, what goes wrong is made to.

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PLAIN_MODULES } from "../../src/adapterModules.js";
import { type BaseModel, closeBaseModel, loadBaseModel } from "../../src/engine/core/baseModel.js";
import { embeddedModel, resolveOptions } from "../../src/engine/core/options.js";
import { generate } from "../../src/inference/index.js";
import { Message, readFields } from "../../src/protobuf.js";
import { type AdapterSpec, type NamedTensors, openRuntime, type Trainer } from "../../src/runtime/runtime.js";
import { NEUTRAL_NUMBERS } from "../../src/samplingNumbers.js";
import { writeAdapterFolder } from "../../src/weights/adapterFolder.js";

interface Datum {
  model_input: { chunks: { tokens: number[] }[] };
  loss_fn_inputs: Record<string, { data: number[] }>;
}
// biome-ignore lint/suspicious/noExplicitAny: bodies of the wire, of many shapes.
type Body = Record<string, any>;

interface Adapter {
  spec: AdapterSpec;
  trainer: Trainer;
  /** Rows since the last optimizer step, for servers that take the mean over them. */
  rows: number;
  /** Gradients of passes wait for their number. */
  waiting: { datum: Datum; loss: string }[];
}

interface State {
  spec: AdapterSpec;
  value: NamedTensors;
  moment1: NamedTensors;
  moment2: NamedTensors;
  steps: number;
}

/** What becomes of a request: an answer in its place, or the connection broken before or after it is done. */
export type Fault = { status: number; body?: string; headers?: Record<string, string> } | "before" | "after" | null;

/**
 * "published": as the interface's own service has had it. "protobuf": as version 0.38 of its client needs it. "skyrl": as SkyRL
 * tx 0.3 has it.
 */
export type ServiceKind = "published" | "protobuf" | "skyrl";

const ALPHA = 32;

export class TinkerService {
  url = "";
  /** Of requests, in order: the path below /api/v1, and the body. */
  readonly seen: { path: string; body: Body; headers: IncomingMessage["headers"] }[] = [];
  fault: (path: string, body: Body) => Fault = () => null;
  kind: ServiceKind = "published";
  key: string | null = null;
  /** Answers that say that a future has no result yet, before the one that has. */
  pollsBefore: Fault[] | "try_again" = [];
  archive: ((bytes: Buffer) => Buffer) | null = null;
  readonly #folder = mkdtempSync(join(tmpdir(), "anneal-tinker-service-"));
  readonly #server: Server;
  #base!: BaseModel;
  #adapters = new Map<string, Adapter>();
  #sessions = new Set<string>();
  #futures = new Map<string, { result: Promise<Body>; polls: number }>();
  #numbered = new Map<string, string>();
  readonly #states = new Map<string, State>();
  readonly #samplers = new Map<string, { version: number; state: State }>();
  #made = 0;
  #last: Promise<unknown> = Promise.resolve();

  constructor() {
    this.#server = createServer((request, response) => void this.#serve(request, response));
  }

  async start(port = 0): Promise<void> {
    this.#base ??= await loadBaseModel(
      openRuntime({}),
      { path: embeddedModel.path, kvPages: 128 },
      resolveOptions({}),
      {
        total: 2 ** 32,
      },
    );
    await new Promise<void>((resolve) => this.#server.listen(port, "127.0.0.1", resolve));
    this.url = `http://127.0.0.1:${(this.#server.address() as { port: number }).port}`;
  }

  /** Takes no more connections. */
  async stop(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }

  /** As after a crash: only what was saved is still there. */
  forget(): void {
    for (const { trainer } of this.#adapters.values()) trainer.close();
    this.#adapters = new Map();
    this.#sessions = new Set();
    this.#futures = new Map();
    this.#numbered = new Map();
  }

  /** Names of everything that is saved, to train and to sample. */
  get saved(): string[] {
    return [...this.#states.keys(), ...this.#samplers.keys()];
  }

  #remove(name: string): boolean {
    if (this.kind === "skyrl") return false;
    return this.#states.delete(name) || this.#samplers.delete(name);
  }

  get adapters(): number {
    return this.#adapters.size;
  }

  count(path: string): number {
    return this.seen.filter((one) => one.path === path).length;
  }

  async close(): Promise<void> {
    if (this.#server.listening) await this.stop();
    this.forget();
    await closeBaseModel(this.#base);
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const received = Buffer.concat(chunks);
    const isBinary = request.headers["content-type"] === PROTOBUF;
    const body: Body = received.length === 0 ? {} : isBinary ? passIn(received) : JSON.parse(received.toString());
    const path = request.url!.replace("/api/v1", "");
    this.seen.push({ path, body, headers: request.headers });
    const send = (status: number, content: unknown, headers: Record<string, string> = {}) => {
      if (response.destroyed) return;
      const bytes = content instanceof Uint8Array || typeof content === "string" ? content : JSON.stringify(content);
      response.writeHead(status, { "content-type": "application/json", ...headers }).end(bytes);
    };
    if (request.method === "DELETE") {
      const name = /^\/training_runs\/([^/]+)\/checkpoints\/(.+)$/.exec(path);
      const isKnown = name !== null && this.#remove(`tinker://${name[1]}/${name[2]}`);
      return void response.writeHead(isKnown ? 204 : 404).end();
    }
    const fault = this.fault(path, body);
    if (fault === "before") return void response.destroy();
    if (fault !== null && fault !== "after") return send(fault.status, fault.body ?? "{}", fault.headers);
    if (this.key !== null && request.headers["x-api-key"] !== this.key) {
      return send(401, { detail: "Invalid API key" });
    }
    if (this.kind === "protobuf" && path === "/forward_backward" && !isBinary) {
      return send(415, { detail: "expected application/x-protobuf" });
    }
    const answer = await this.#answer(path, body, request.headers.accept === PROTOBUF).catch(
      (error: Error & { status?: number }) => ({
        status: error.status ?? 500,
        content: { detail: error.message },
      }),
    );
    if (fault === "after") return void response.destroy();
    const { status, content, headers } = answer as {
      status: number;
      content: unknown;
      headers?: Record<string, string>;
    };
    send(status, content, headers);
  }

  async #answer(
    path: string,
    body: Body,
    takesProtobuf: boolean,
  ): Promise<{ status: number; content: unknown; headers?: Record<string, string> }> {
    const ok = (content: unknown) => ({ status: 200, content });
    if (path === "/openapi.json") {
      return this.kind === "skyrl" ? ok(SKYRL_OPENAPI) : { status: 404, content: { detail: "Not Found" } };
    }
    if (path === "/client/config") {
      if (this.kind !== "protobuf") return { status: 404, content: { detail: "Not Found" } };
      return ok({ parallel_fwdbwd_chunks: true, proto_compress_fwdbwd: false, fwdbwd_max_chunk_len: 1024 });
    }
    if (path === "/get_server_capabilities") {
      return ok({ supported_models: [{ model_name: "base/tiny", max_context_length: 512 }] });
    }
    if (path === "/create_session") {
      const id = `session_${this.#made++}`;
      this.#sessions.add(id);
      return ok({ type: "create_session", session_id: id });
    }
    if (path === "/session_heartbeat") return ok({ type: "session_heartbeat" });
    if (path === "/retrieve_future") return this.#retrieve(body, takesProtobuf);
    const archive = /^\/training_runs\/([^/]+)\/checkpoints\/(.+)\/archive$/.exec(path);
    if (archive)
      return { status: 302, content: "", headers: { location: `${this.url}/files/${archive[1]}/${archive[2]}` } };
    if (path.startsWith("/files/")) return { status: 200, content: await this.#archive(path.slice("/files/".length)) };
    const id = this.#submit(path, body);
    return ok({ request_id: id, future_id: id, status: "pending", ...(path === "/create_model" ? {} : {}) });
  }

  /** A number that was seen is the request that was seen, where the service knows numbers. */
  #submit(path: string, body: Body): string {
    if (path === "/create_model" && !this.#sessions.has(body.session_id)) throw failure(404, "Session not found");
    if (this.kind === "protobuf" && path === "/forward") throw failure(404, "Not Found");
    const number = this.kind !== "skyrl" && body.seq_id !== undefined ? `${body.model_id}:${body.seq_id}` : null;
    const known = number && this.#numbered.get(number);
    if (known) return known;
    const id = String(++this.#made);
    const result = this.#last.then(() => this.#run(path, body));
    this.#last = result.catch(() => undefined);
    this.#futures.set(id, { result, polls: 0 });
    if (number) this.#numbered.set(number, id);
    return id;
  }

  async #retrieve(
    { request_id: id }: Body,
    takesProtobuf: boolean,
  ): Promise<{ status: number; content: unknown; headers?: Record<string, string> }> {
    const future = this.#futures.get(String(id));
    if (!future) return { status: 404, content: { detail: "Future not found" } };
    const polls = future.polls++;
    if (this.pollsBefore === "try_again") {
      if (polls === 0) return { status: 200, content: { type: "try_again", request_id: id, queue_state: "active" } };
    } else if (polls < this.pollsBefore.length) {
      const fault = this.pollsBefore[polls];
      if (fault && typeof fault === "object") return { status: fault.status, content: fault.body ?? "{}" };
    }
    try {
      const content = await future.result;
      const message = takesProtobuf && this.kind === "protobuf" ? messageOf(content) : null;
      if (message === null) return { status: 200, content };
      return { status: 200, content: message, headers: { "content-type": PROTOBUF } };
    } catch (error) {
      const { message } = error as Error;
      if (this.kind === "skyrl") return { status: 400, content: { detail: message } };
      return { status: 200, content: { error: message, category: "user" } };
    }
  }

  #adapter(id: string): Adapter {
    const adapter = this.#adapters.get(id);
    if (!adapter) throw failure(400, `Model ${id} not loaded`);
    return adapter;
  }

  async #run(path: string, body: Body): Promise<Body> {
    const { device } = this.#base;
    switch (path) {
      case "/create_model": {
        const { rank, seed } = body.lora_config;
        const spec: AdapterSpec = { rank, alpha: ALPHA, rslora: false, targets: [...PLAIN_MODULES] };
        const id = `model_${this.#made++}`;
        const trainer = await device.trainAdapter(spec, { seed: BigInt(seed) });
        this.#adapters.set(id, { spec, trainer, rows: 0, waiting: [] });
        return { type: "create_model", model_id: id };
      }
      case "/unload_model": {
        this.#adapters.get(body.model_id)?.trainer.close();
        this.#adapters.delete(body.model_id);
        return { type: "unload_model", model_id: body.model_id };
      }
      case "/load_weights": {
        const { trainer } = this.#adapter(body.model_id);
        const state = this.#states.get(body.path);
        if (!state) throw failure(404, `Checkpoint not found: ${body.path}`);
        await trainer.write("value", state.value);
        if (body.optimizer) {
          await trainer.write("moment1", state.moment1);
          await trainer.write("moment2", state.moment2, state.steps);
        }
        return { type: "load_weights" };
      }
      case "/save_weights":
      case "/save_weights_for_sampler": {
        const { spec, trainer } = this.#adapter(body.model_id);
        const read = (part: "value" | "moment1" | "moment2") => trainer.read(part);
        const state: State = {
          spec,
          value: await read("value"),
          moment1: await read("moment1"),
          moment2: await read("moment2"),
          steps: trainer.steps,
        };
        const kind = path === "/save_weights" ? "weights" : "sampler_weights";
        const saved = `tinker://${body.model_id}/${kind}/${body.path}`;
        if (kind === "weights") this.#states.set(saved, state);
        else this.#samplers.set(saved, { version: await trainer.publish(), state });
        return { type: path.slice(1), path: saved };
      }
      case "/forward":
        return this.#pass(this.#adapter(body.model_id), body.forward_input, false);
      case "/forward_backward":
        return this.#pass(this.#adapter(body.model_id), body.forward_backward_input, !body.forward_only);
      case "/optim_step": {
        const adapter = this.#adapter(body.model_id);
        const adam = body.adam_params;
        for (const { datum, loss } of adapter.waiting.splice(0)) await this.#backward(adapter, datum, loss);
        adapter.rows = 0;
        const { gradNorm } = await adapter.trainer.optimStep({
          learningRate: adam.learning_rate,
          beta1: adam.beta1 ?? 0.9,
          beta2: adam.beta2 ?? 0.95,
          eps: adam.eps ?? 1e-12,
          weightDecay: adam.weight_decay ?? 0,
          maxGradNorm: this.kind === "skyrl" ? 0 : (adam.grad_clip_norm ?? 0),
        });
        return this.kind === "skyrl" ? { metrics: null } : { metrics: { "grad_norm:mean": gradNorm } };
      }
      case "/asample":
        return this.#sample(body);
      default:
        throw failure(404, "Not Found");
    }
  }

  async #pass(adapter: Adapter, input: Body, isTraining: boolean): Promise<Body> {
    const data = input.data as Datum[];
    const rows = data.map(({ model_input, loss_fn_inputs }) => ({
      tokens: Int32Array.from([
        ...model_input.chunks.flatMap(({ tokens }) => tokens),
        loss_fn_inputs.target_tokens!.data.at(-1)!,
      ]),
    }));
    const { logprobs } = await adapter.trainer.evaluate(rows);
    if (isTraining) {
      adapter.rows += data.length;
      adapter.waiting.push(...data.map((datum) => ({ datum, loss: input.loss_fn as string })));
    }
    const outputs = logprobs.map((row) => ({ logprobs: { data: [...row.subarray(0, -1)], dtype: "float32" } }));
    return { loss_fn_output_type: "scalar", loss_fn_outputs: outputs, metrics: {} };
  }

  /** The loss of a row as each kind of service has it. */
  async #backward({ trainer, rows }: Adapter, { model_input, loss_fn_inputs }: Datum, loss: string): Promise<void> {
    const targets = loss_fn_inputs.target_tokens!.data;
    const tokens = Int32Array.from([...model_input.chunks.flatMap((chunk) => chunk.tokens), targets.at(-1)!]);
    const weights = loss_fn_inputs.weights?.data ?? targets.map(() => 1);
    const pass = await trainer.forward([{ tokens }]);
    const logprobs = pass.logprobs[0]!;
    const slopes = Float32Array.from(tokens, (_, t) => {
      if (t >= targets.length || weights[t] === 0) return 0;
      if (loss === "cross_entropy") return -weights[t]!;
      const { advantages, logprobs: old } = loss_fn_inputs;
      return -weights[t]! * Math.exp(logprobs[t]! - old!.data[t]!) * advantages!.data[t]!;
    });
    const sum = weights.reduce((total, weight) => total + weight, 0);
    const share = this.kind === "skyrl" ? Math.max(sum, 1e-9) * rows : 1;
    await pass.backward([slopes.map((slope) => slope / share)]);
  }

  async #sample(body: Body): Promise<Body> {
    const { sampling_params: given, num_samples: n, prompt } = body;
    const sampler = body.model_path ? this.#samplers.get(body.model_path) : null;
    if (body.model_path && !sampler) throw failure(404, `Checkpoint not found: ${body.model_path}`);
    if (body.model_path && this.kind === "skyrl") this.#adapter(/^tinker:\/\/([^/]+)/.exec(body.model_path)![1]!);
    const generation = generate(this.#base.loop, {
      requestId: "r",
      promptTokens: prompt.chunks.flatMap((chunk: { tokens: number[] }) => chunk.tokens),
      adapter: sampler?.version ?? 0,
      params: {
        ...NEUTRAL_NUMBERS,
        temperature: given.temperature,
        topP: given.top_p,
        topK: Math.max(0, given.top_k),
        seed: BigInt(given.seed),
        maxTokens: given.max_tokens,
        minTokens: 0,
        eosId: null,
        extraEosIds: [],
        ignoreEos: true,
        stopTokenIds: given.stop,
        stop: [],
        includeStop: true,
        skipSpecialTokens: true,
        spacesBetweenSpecialTokens: true,
        logitBias: [],
        allowedTokenIds: null,
        badWords: [],
        logprobs: 0,
        logprobTokenIds: null,
        promptLogprobs: null,
        repetitionDetection: null,
        thinking: null,
        beam: null,
      },
      grammar: null,
      n,
      priority: 0,
      cacheSalt: null,
      useCache: true,
      streaming: false,
    });
    const sequences = Array.from({ length: n }, () => ({
      stop_reason: "length",
      tokens: [] as number[],
      logprobs: [] as number[],
    }));
    for await (const event of generation) {
      if (event.type !== "tokens") continue;
      const sequence = sequences[event.index]!;
      sequence.tokens.push(...event.tokenIds);
      sequence.logprobs.push(...event.logprobs!);
      if (event.finish) sequence.stop_reason = event.finish.reason === "stop" ? "stop" : "length";
    }
    return { type: "sample", sequences };
  }

  async #archive(name: string): Promise<Buffer> {
    const [run, ...checkpoint] = name.split("/");
    const sampler = this.#samplers.get(`tinker://${run}/${checkpoint.join("/")}`);
    if (!sampler) throw failure(404, `Checkpoint not found: ${name}`);
    const folder = mkdtempSync(join(this.#folder, "archive-"));
    await writeAdapterFolder(folder, sampler.state.spec, sampler.state.value, "base/tiny");
    const file = `${folder}.tar.gz`;
    execFileSync("tar", ["-czf", file, "-C", folder, "."]);
    const bytes = readFileSync(file);
    return this.archive?.(bytes) ?? bytes;
  }
}

const PROTOBUF = "application/x-protobuf";

/** A ForwardBackwardRequest as JSON has it. */
function passIn(message: Uint8Array): Body {
  const body: Body = { forward_backward_input: { data: [] } };
  const numbers = (bytes: Uint8Array, dtype: number) => {
    const { buffer } = new Uint8Array(bytes);
    return dtype === 1 ? [...new Float32Array(buffer)] : Array.from(new BigInt64Array(buffer), Number);
  };
  const parts = (bytes: Uint8Array) =>
    [...readFields(bytes)] as { field: number; integer: number; bytes: Uint8Array }[];
  for (const { field, integer, bytes } of parts(message)) {
    if (field === 1) body.model_id = Buffer.from(bytes).toString();
    if (field === 2) body.seq_id = integer;
    if (field === 4) body.forward_backward_input.loss_fn = Buffer.from(bytes).toString();
    if (field === 6) body.forward_only = integer === 1;
    if (field !== 3) continue;
    const datum: Datum = { model_input: { chunks: [] }, loss_fn_inputs: {} };
    for (const part of parts(bytes)) {
      if (part.field === 1) {
        const [text] = parts(part.bytes);
        const [tokens] = parts(text!.bytes);
        datum.model_input.chunks.push({ tokens: [...new Int32Array(new Uint8Array(tokens!.bytes).buffer)] });
      } else {
        const [name, tensor] = parts(part.bytes);
        const inner = new Map(parts(tensor!.bytes).map((one) => [one.field, one]));
        const data = numbers(inner.get(1)!.bytes, inner.get(3)!.integer);
        datum.loss_fn_inputs[Buffer.from(name!.bytes).toString()] = { data };
      }
    }
    body.forward_backward_input.data.push(datum);
  }
  return body;
}

/** A ForwardBackwardOutput or SampleResponse; null: neither. */
function messageOf(result: Body): Uint8Array | null {
  const bytes = (values: Float32Array | Int32Array | BigInt64Array) => new Uint8Array(values.buffer);
  if (result.type === "sample") {
    const message = new Message();
    for (const { stop_reason, tokens, logprobs } of result.sequences) {
      const sequence = new Message().integer(1, stop_reason === "stop" ? 0 : 1);
      sequence.data(2, bytes(Int32Array.from(tokens))).data(3, bytes(Float32Array.from(logprobs)));
      message.message(1, sequence);
    }
    return message.toBytes();
  }
  if (!result.loss_fn_outputs) return null;
  const rows = (result.loss_fn_outputs as { logprobs: { data: number[] } }[]).map(({ logprobs }) => logprobs.data);
  const ends = [0];
  for (const row of rows) ends.push(ends.at(-1)! + 4 * row.length);
  const tensor = new Message().data(1, bytes(Float32Array.from(rows.flat())));
  tensor.data(2, bytes(BigInt64Array.from(ends, BigInt))).integer(3, 1);
  const record = new Message().message(2, new Message().text(1, "logprobs").message(2, tensor));
  return new Message().message(2, record.integer(3, rows.length)).toBytes();
}

function failure(status: number, message: string): Error {
  return Object.assign(new Error(message), { status });
}

/** What SkyRL tx 0.3 says of itself, as far as it is asked. */
const SKYRL_OPENAPI = {
  info: { title: "Tinker API Mock" },
  components: {
    schemas: {
      LoRAConfig: { properties: { rank: {}, seed: {} } },
      AdamParams: { properties: { learning_rate: {}, beta1: {}, beta2: {}, eps: {}, weight_decay: {} } },
      ForwardBackwardInput: {
        properties: {
          data: {},
          loss_fn: { enum: ["cross_entropy", "importance_sampling", "ppo"] },
          loss_fn_config: {},
        },
      },
      ForwardBackwardRequest: { properties: { model_id: {}, forward_backward_input: {} } },
      LoadWeightsRequest: { properties: { model_id: {}, path: {}, type: {} } },
    },
  },
};
