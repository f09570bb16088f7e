// Tokens behind tokens: a plain completion that is asked for, and told, in ids.

import { relocatedFault } from "../../relocatedFault.js";
import { type GenerationCreateRequest, generationCreate } from "../../schemas/generations.js";
import { validateAsync } from "../../schemas/validate.js";
import type { GeneratedTokenLogprob, Generation, GenerationChoice } from "../../types/generations.js";
import type { TextCompletion, TextCompletionChoice, TextCompletionLogprobs } from "../../types/textCompletions.js";
import type { ChatCall, ChatHost } from "../chat/host.js";
import { createTextCompletion } from "./createTextCompletion.js";

/**
 * Goes on with a prompt of token ids. With `stream: true` the promise resolves, to the chunks, once it has been accepted.
 * Leaving the loop over the chunks aborts, as the signal does.
 * @throws as `createTextCompletion`
 */
export async function createGeneration(
  host: ChatHost,
  params: unknown,
  call: ChatCall,
): Promise<Generation | AsyncIterable<Generation>> {
  const request = await validateAsync(generationCreate, params, { strict: call.strict });
  const { token_ids, sampling_params, return_token_ids, output_mode, ...same } = request;
  const completion = {
    ...same,
    ...sampling_params,
    // Lowered to the room that there is.
    max_tokens: sampling_params?.max_tokens ?? Number.MAX_SAFE_INTEGER,
    prompt: token_ids,
    return_token_ids: true,
    return_tokens_as_token_ids: true,
  };
  const lowersMaxTokens = sampling_params?.max_tokens === undefined;
  const reply = await createTextCompletion(host, completion, { ...call, lowersMaxTokens }).catch((error) => {
    throw relocatedFault(error, (path) => renamed(path), "shorten the prompt");
  });
  return Symbol.asyncIterator in reply ? chunks(reply, request) : generation(reply, request);
}

/** Where a completion's field stands here. */
function renamed(path: string[]): string[] {
  const [head, ...rest] = path;
  if (head === undefined || head in generationCreate.shape) return path;
  return head === "prompt" || head === "messages" ? ["token_ids", ...rest] : ["sampling_params", ...path];
}

function chunks(reply: AsyncIterable<TextCompletion>, request: GenerationCreateRequest): AsyncIterable<Generation> {
  const pieces = reply[Symbol.asyncIterator]();
  const told = (result: IteratorResult<TextCompletion>): IteratorResult<Generation> =>
    result.done ? result : { done: false, value: generation(result.value, request) };
  const stream: AsyncIterableIterator<Generation> = {
    [Symbol.asyncIterator]: () => stream,
    async next() {
      let result = await pieces.next();
      while (!result.done && isOfPromptAlone(result.value) && !request.return_token_ids) result = await pieces.next();
      return told(result);
    },
    return: async () => told((await pieces.return?.()) ?? { done: true, value: undefined }),
  };
  return stream;
}

const isOfPromptAlone = ({ choices: [choice] }: TextCompletion) => choice !== undefined && choice.token_ids === null;

function generation(
  { id, created, model, choices, usage }: TextCompletion,
  { return_token_ids, sampling_params }: GenerationCreateRequest,
): Generation {
  return {
    request_id: id.replace(/^cmpl-/, ""),
    created,
    model,
    output_mode: "tokens",
    choices: choices.map((choice) => generated(choice, sampling_params?.logprobs ?? 0)),
    ...(usage === undefined ? {} : { usage }),
    prompt_token_ids: (return_token_ids && choices[0]?.prompt_token_ids) || null,
    prompt_logprobs: choices[0]?.prompt_logprobs ?? null,
  };
}

function generated(
  { index, token_ids, logprobs, finish_reason, stop_reason }: TextCompletionChoice,
  top: number,
): GenerationChoice {
  const content = logprobs && tokenLogprobs(logprobs, top);
  return { index, token_ids: token_ids ?? [], logprobs: content && { content }, finish_reason, stop_reason };
}

function tokenLogprobs(
  { tokens, token_logprobs, top_logprobs }: TextCompletionLogprobs,
  top: number,
): GeneratedTokenLogprob[] {
  const entry = (token: string, logprob: number) => ({
    token,
    token_id: Number(token.slice(token.indexOf(":") + 1)),
    logprob,
  });
  return tokens.map((token, i) => ({
    ...entry(token, token_logprobs[i]!),
    // The drawn token stands among them, whether it is one of the likeliest or not.
    top_logprobs: Object.entries(top_logprobs[i]!)
      .sort(([, a], [, b]) => b - a)
      .slice(0, top)
      .map(([other, logprob]) => entry(other, logprob)),
  }));
}
