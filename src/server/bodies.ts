// Bodies of requests, read within a limit. Hono's bodyLimit stops reading at once, and gathers bodies without a length in memory; here the
// rest is read for a while (`drained`).

import { clearTimeout, setTimeout } from "node:timers";
import { BadRequestError, InternalServerError, PayloadTooLargeError, ValidationError } from "../errors.js";
import { shouldYield, yieldToEventLoop } from "../eventLoop.js";
import type { ExactFields } from "../json.js";
import { parseJsonAsync } from "../jsonAsync.js";
import { type Release, Semaphore } from "../semaphore.js";

/** What is still read of a body that is too long: a client that is cut off while it sends never sees why. */
const drained = { bytes: 64 * 2 ** 20, ms: 1000 };

function tooLarge(limit: number): PayloadTooLargeError {
  return new PayloadTooLargeError(`the body is longer than ${limit} bytes`, { param: "body" });
}

/** Where this is mounted, something before it has taken the body. */
function alreadyRead(): InternalServerError {
  return new InternalServerError("the body was read before the request came to anneal", {
    code: "body_already_read",
    hint: "mount anneal before what reads bodies",
  });
}

/**
 * The body's bytes as they arrive.
 * @throws PayloadTooLargeError when it is longer than `limit` bytes; BadRequestError when the client is gone before its
 *   end; InternalServerError with code "body_already_read".
 */
export async function* readBody(request: Request, limit: number): AsyncGenerator<Uint8Array> {
  const maxRead = limit + drained.bytes;
  const declared = Number(request.headers.get("content-length") ?? 0);
  if (declared > maxRead) throw tooLarge(limit);
  if (request.bodyUsed || request.body?.locked) throw alreadyRead();
  const reader = request.body?.getReader();
  let length = 0;
  let draining: NodeJS.Timeout | undefined;
  try {
    for (;;) {
      const chunk = (await reader?.read())?.value;
      if (chunk === undefined) break;
      length += chunk.byteLength;
      if (length > maxRead) break;
      if (Math.max(length, declared) <= limit) yield chunk;
      else draining ??= setTimeout(() => void reader?.cancel().catch(() => undefined), drained.ms);
    }
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== "ECONNRESET") throw cause;
    throw new BadRequestError("the connection closed before the body ended", { code: "body_cut_short", cause });
  } finally {
    clearTimeout(draining);
    void reader?.cancel().catch(() => undefined);
  }
  if (Math.max(length, declared) > limit) throw tooLarge(limit);
  if (length === 0 && declared > 0) throw alreadyRead();
}

/** @throws ValidationError */
function checkContentType(request: Request): void {
  const type = request.headers.get("content-type");
  if (type !== null && /^application\/json\s*(;|$)/i.test(type)) return;
  const msg = `unsupported media type${type === null ? "" : ` ${type}`}: the content type must be application/json`;
  throw new ValidationError([{ loc: ["body"], msg, type: "content_type" }], { code: "content_type" });
}

/** @throws ValidationError */
function checkContentEncoding(request: Request): void {
  const encoding = request.headers.get("content-encoding") ?? "identity";
  if (encoding.trim().toLowerCase() === "identity") return;
  const msg = `the content encoding ${encoding} is not supported: send the body as it is`;
  throw new ValidationError([{ loc: ["body"], msg, type: "content_encoding" }], { code: "content_encoding" });
}

/** Bytes from which a body waits until no other such body is worked on: in memory it is about nine times as large. */
const LARGE = 16 * 2 ** 20;

const largeBodies = new Semaphore(1);

/** Of a body that is handed on as its bytes where there are more. */
const MAX_PARSED = 4 * 2 ** 20;

/**
 * @param onRelease is given what ends the turn of a large body, to be called when its work is done
 * @throws PayloadTooLargeError; ValidationError for another content type, compression or malformed JSON.
 */
export async function readJson(
  request: Request,
  limit: number,
  exact: ExactFields,
  onRelease: (release: Release) => void,
): Promise<unknown> {
  const { chunks } = await readJsonChunks(request, limit, Number.POSITIVE_INFINITY);
  if (chunks.reduce((sum, { byteLength }) => sum + byteLength, 0) > LARGE) {
    onRelease(await largeBodies.acquire(request.signal));
  }
  return parseJsonAsync(await joined(chunks), exact);
}

/**
 * The same of a body that may be read elsewhere: its bytes where they are too many to be parsed here.
 * @throws as readJson; what comes of a body too long when it is read.
 */
export async function readJsonOrBytes(
  request: Request,
  limit: number,
  exact: ExactFields,
): Promise<{ json: unknown } | { bytes: AsyncIterable<Uint8Array> }> {
  const { chunks, others } = await readJsonChunks(request, limit, MAX_PARSED);
  return others ? { bytes: following(chunks, others) } : { json: await parseJsonAsync(await joined(chunks), exact) };
}

/** The first chunks, up to about `most` bytes, and where there are others these. */
async function readJsonChunks(
  request: Request,
  limit: number,
  most: number,
): Promise<{ chunks: Uint8Array[]; others: AsyncIterableIterator<Uint8Array> | null }> {
  checkContentType(request);
  checkContentEncoding(request);
  const others = readBody(request, limit);
  const chunks: Uint8Array[] = [];
  for (let length = 0; length <= most; ) {
    const { done, value } = await others.next();
    if (done) return { chunks, others: null };
    chunks.push(value);
    length += value.byteLength;
  }
  return { chunks, others };
}

async function* following(chunks: Uint8Array[], others: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield* chunks.splice(0);
  yield* others;
}

/** Empties the list as it goes: a body is there twice at most. */
async function joined(chunks: Uint8Array[]): Promise<Buffer> {
  const [first] = chunks;
  if (first !== undefined && chunks.length === 1) return Buffer.from(first.buffer, first.byteOffset, first.byteLength);
  const whole = Buffer.allocUnsafeSlow(chunks.reduce((sum, { byteLength }) => sum + byteLength, 0));
  let end = whole.length;
  for (let chunk = chunks.pop(); chunk !== undefined; chunk = chunks.pop()) {
    end -= chunk.byteLength;
    whole.set(chunk, end);
    while (shouldYield()) await yieldToEventLoop();
  }
  return whole;
}
