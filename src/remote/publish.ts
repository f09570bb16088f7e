// Puts a checkpoint where a server of another engine sees it, has it served there, and compares what it says.

import { join, posix, win32 } from "node:path";
import { NotFoundError, RemoteServerError, ValidationError } from "../errors.js";
import { remoteUnexpected } from "../remoteReplies.js";
import { NEUTRAL_FIELDS } from "../samplingNumbers.js";
import { modelPublish } from "../schemas/publish.js";
import { validate } from "../schemas/validate.js";
import type {
  ChatCompletion,
  ChatCompletionCreateParamsNonStreaming,
  ChatMessageParam,
  TokenLogprob,
  TopLogprob,
} from "../types/chat.js";
import type { AnnealClient, RequestOptions } from "../types/client.js";
import type { Checkpoint, Model } from "../types/models.js";
import type { ModelPublished, ModelPublishParams, PublishCheckParams } from "../types/publish.js";
import { VllmServer } from "./vllmServer.js";

/** What publishing needs of an engine. */
export interface PublishingEngine {
  models: Pick<AnnealClient["models"], "retrieve" | "export">;
  checkpoints: Pick<AnnealClient["checkpoints"], "list">;
  chat: AnnealClient["chat"];
}

const QUESTION = "Name three colours, then count from one to five.";
const DEFAULT_TOKENS = 32;
const DEFAULT_DIFFERENCE = 0.1;

/**
 * Has a server serve a checkpoint of a model: one name per step and, once the comparison has passed, the name without a
 * step. What is served there under other names stays.
 * @throws RemoteServerError with code "remote_unreachable", "remote_refused" (in the server's own words) or
 * "remote_mismatch"; ValidationError naming the parameter; NotFoundError for an unknown model or step.
 */
export async function publishCheckpoint(
  engine: PublishingEngine,
  modelId: string,
  params: ModelPublishParams,
  { signal }: RequestOptions = {},
): Promise<ModelPublished> {
  const asked = validate(modelPublish, params, { strict: true });
  if (asked.server_path != null && asked.shared == null) {
    throw ValidationError.at("server_path", "says how the server sees the folder `shared`, which is not given");
  }
  const server = new VllmServer(asked);
  const model = await engine.models.retrieve(modelId, { signal });
  const checkpoint = await findCheckpoint(engine, model, asked.step ?? null, signal);
  const { step } = checkpoint;
  const latestName = asked.name ?? `${model.project}/${model.name}`;
  const name = `${latestName}:step${step}`;
  // A server that cannot be reached is told before anything is copied.
  const served = await server.models(signal);
  const path = await placed(engine, model, checkpoint, asked, signal);
  await server.loadAdapter(name, path, signal);
  let check: ModelPublished["check"] = null;
  if (asked.check !== false) {
    try {
      check = await compare(engine, model, step, server, name, (asked.check ?? {}) as PublishCheckParams, signal);
    } catch (error) {
      // What it served under that name before was this step too.
      if (!served.some(({ id }) => id === name)) await server.unloadAdapter(name).catch(() => {});
      throw error;
    }
  }
  const isLatest = asked.latest ?? true;
  if (isLatest) await server.loadAdapter(latestName, path, signal);
  return { name, latest_name: isLatest ? latestName : null, step, path, check };
}

async function findCheckpoint(
  engine: PublishingEngine,
  model: Model,
  step: number | null,
  signal?: AbortSignal,
): Promise<Checkpoint> {
  for await (const checkpoint of engine.checkpoints.list(model.id, { order: "desc", limit: 100 }, { signal })) {
    if (step === null || checkpoint.step === step) return checkpoint;
    if (checkpoint.step < step) break;
  }
  const name = `${model.entity}/${model.project}/${model.name}`;
  throw new NotFoundError(`${name} has no checkpoint at step ${step}`, { code: "step_not_found", param: "step" });
}

/** The folder of the checkpoint as the server sees it. */
async function placed(
  engine: PublishingEngine,
  model: Model,
  { step, path }: Checkpoint,
  { shared, server_path, base_model }: ModelPublishParams,
  signal?: AbortSignal,
): Promise<string> {
  if (shared == null) {
    if (path !== undefined) return path;
    throw ValidationError.at("shared", "is needed: where the home keeps the checkpoint is told to its owner only");
  }
  // The id keeps apart models that had the name one after the other: a server may keep what it computed of a path.
  const folders = [`${model.project}.${model.name}.${model.id.slice(0, 8)}`, `step${step}`];
  try {
    await engine.models.export(
      model.id,
      { path: join(shared, ...folders), step, base_model: base_model ?? null },
      { signal },
    );
  } catch (error) {
    // A checkpoint never changes, and is there whole or not at all.
    if (!(error instanceof ValidationError) || error.code !== "folder_not_empty") throw error;
  }
  if (server_path == null) return join(shared, ...folders);
  return (/^[a-z]:\\|^\\\\/i.test(server_path) ? win32 : posix).join(server_path, ...folders);
}

/** One token of a reply: the one that was drawn, and how likely the likeliest were. */
interface Drawn {
  id: number;
  logprob: number;
  /** Of the likeliest, by id. */
  top: Map<number, number>;
}

async function compare(
  engine: PublishingEngine,
  model: Model,
  step: number,
  server: VllmServer,
  name: string,
  check: PublishCheckParams,
  signal?: AbortSignal,
): Promise<NonNullable<ModelPublished["check"]>> {
  const bound = check.max_logprob_difference ?? DEFAULT_DIFFERENCE;
  const params = (served: string): ChatCompletionCreateParamsNonStreaming => ({
    model: served,
    messages: (check.messages as ChatMessageParam[] | null | undefined) ?? [{ role: "user", content: QUESTION }],
    max_tokens: check.max_tokens ?? DEFAULT_TOKENS,
    // Whatever defaults the folders of the two name.
    ...NEUTRAL_FIELDS,
    temperature: 0,
    top_k: -1,
    logprobs: true,
    top_logprobs: 2,
    return_token_ids: true,
    return_tokens_as_token_ids: true,
  });
  const local = `wandb-artifact:///${model.entity}/${model.project}/${model.name}:step${step}`;
  const [ours, theirs] = await Promise.all([
    engine.chat.completions.create(params(local), { signal }),
    server.complete(params(name), signal),
  ]);
  if (!sameTokens(ours.prompt_token_ids, theirs.prompt_token_ids)) {
    const counts = `${ours.prompt_token_ids?.length ?? 0} tokens here, ${theirs.prompt_token_ids?.length ?? 0} there`;
    throw mismatch(
      `${server.url} makes another prompt of the same messages (${counts})`,
      "it must serve the same base model, with the same tokenizer and chat template",
    );
  }
  const [here, there] = [drawnTokens(ours), drawnTokens(theirs)];
  if (!here || !there) {
    throw remoteUnexpected(server.url, `complete with "${name}"`, "logprobs that are none");
  }
  let largest = 0;
  const length = Math.min(here.length, there.length);
  for (let i = 0; i < length; i++) {
    const [mine, other] = [here[i]!, there[i]!];
    if (mine.id !== other.id) {
      const gap = Math.max(gapTo(mine, other.id), gapTo(other, mine.id));
      if (gap > bound) {
        throw mismatch(
          `${server.url} drew token ${other.id} where this engine drew ${mine.id}, after ${i} that agree`,
          "see that it serves the same base model and adapter; max_logprob_difference is the bound",
        );
      }
      return { tokens: i, agreed_tokens: i, max_logprob_difference: largest };
    }
    largest = Math.max(largest, Math.abs(mine.logprob - other.logprob));
    if (!(largest <= bound)) {
      const found = `differs by ${largest.toPrecision(3)} from this engine's, more than ${bound}`;
      throw mismatch(
        `a logprob of ${server.url} ${found} (token ${i} of the reply)`,
        "see that it serves the same base model in the same type; max_logprob_difference is the bound",
      );
    }
  }
  if (here.length !== there.length) {
    throw mismatch(
      `${server.url} ended its reply after ${there.length} tokens, this engine after ${here.length}`,
      "see that both have the same generation_config.json",
    );
  }
  return { tokens: length, agreed_tokens: length, max_logprob_difference: largest };
}

/** How much less likely the token was than the one that was drawn; infinite when it was not among the likeliest. */
function gapTo({ logprob, top }: Drawn, id: number): number {
  const other = top.get(id);
  return other === undefined ? Number.POSITIVE_INFINITY : Math.abs(logprob - other);
}

function sameTokens(a: readonly number[] | null | undefined, b: readonly number[] | null | undefined): boolean {
  // A server that does not tell its prompt is judged by its reply.
  if (!a || !b) return true;
  return a.length === b.length && a.every((id, i) => id === b[i]);
}

/** null: they are not what a completion has. */
function drawnTokens(completion: ChatCompletion): Drawn[] | null {
  const [choice] = completion.choices;
  const content = choice?.logprobs?.content ?? [];
  const isToken = (entry: TopLogprob | null) => typeof entry?.token === "string" && typeof entry.logprob === "number";
  const isDrawn = (entry: TokenLogprob | null) =>
    isToken(entry) && Array.isArray(entry?.top_logprobs) && entry.top_logprobs.every(isToken);
  if (!Array.isArray(content) || !content.every(isDrawn)) return null;
  return content.map(({ token, logprob, top_logprobs }, i) => ({
    id: choice?.token_ids?.[i] ?? idOf(token),
    logprob,
    top: new Map(top_logprobs.map((entry) => [idOf(entry.token), entry.logprob])),
  }));
}

const idOf = (token: string): number => Number(/^token_id:(\d+)$/.exec(token)?.[1] ?? Number.NaN);

function mismatch(message: string, hint: string): RemoteServerError {
  return new RemoteServerError(message, { code: "remote_mismatch", hint });
}
