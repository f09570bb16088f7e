import { BadRequestError, PayloadTooLargeError, ValidationError } from "../errors.js";
import { type ExactFields, parseJson } from "./json.js";

function tooLarge(limit: number): PayloadTooLargeError {
  return new PayloadTooLargeError(`the body is longer than ${limit} bytes`, { param: "body" });
}

/**
 * The body's bytes as they arrive.
 * @throws PayloadTooLargeError as soon as it is known to be longer than `limit` bytes; BadRequestError when the client
 *   is gone before its end.
 */
export async function* readBody(request: Request, limit: number): AsyncGenerator<Uint8Array> {
  if (Number(request.headers.get("content-length") ?? 0) > limit) throw tooLarge(limit);
  if (!request.body) return;
  let length = 0;
  try {
    for await (const chunk of request.body as unknown as AsyncIterable<Uint8Array>) {
      length += chunk.byteLength;
      if (length > limit) throw tooLarge(limit);
      yield chunk;
    }
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== "ECONNRESET") throw cause;
    throw new BadRequestError("the connection closed before the body ended", { code: "body_cut_short", cause });
  }
}

/** A content type is either absent or says JSON. */
function checkContentType(request: Request): void {
  const type = request.headers.get("content-type");
  if (type === null || /^application\/([\w.-]+\+)?json\s*(;|$)/i.test(type)) return;
  const msg = `the content type must be application/json, not ${type}`;
  throw new ValidationError([{ loc: ["header", "content-type"], msg, type: "content_type" }], { code: "content_type" });
}

/** @throws PayloadTooLargeError; ValidationError for another content type or malformed JSON. */
export async function readJson(request: Request, limit: number, exact: ExactFields = []): Promise<unknown> {
  checkContentType(request);
  const chunks: Uint8Array[] = [];
  for await (const chunk of readBody(request, limit)) chunks.push(chunk);
  return parseJson(chunks.length === 1 ? Buffer.from(chunks[0]!) : Buffer.concat(chunks), exact);
}
