// A conversation that is too long for the context without its earliest turns.

import { ValidationError } from "../../errors.js";
import { chatCompletionCreate } from "../../schemas/chat.js";
import type { ResponseRequest } from "../../schemas/responseRequests.js";
import { validateAsync } from "../../schemas/validate.js";
import type { ChatCall, ChatHost } from "../chat/host.js";
import { renderPrompt } from "../chat/prompt.js";
import { type Conversation, chatParams } from "./chatParams.js";

/**
 * The conversation with as many of its turns as fit beside the reply: system messages stay, and the last turn does
 * whatever its length. A turn begins with a message of the user.
 */
export async function fitted(
  host: ChatHost,
  request: ResponseRequest,
  whole: Conversation,
  { caller, signal }: ChatCall,
): Promise<Conversation> {
  const { base, release } = await host.resolve(request.model, caller);
  try {
    const limits = { context: base.loop.contextLength, byDefault: undefined };
    const reply = Math.min(request.max_output_tokens ?? limits.context / 4, limits.context / 2);
    const fits = async (conversation: Conversation): Promise<boolean> => {
      try {
        const params = chatParams(request, conversation.messages);
        const chat = await validateAsync(chatCompletionCreate, params);
        return (await renderPrompt(chat, base, limits, signal)).tokens.length <= limits.context - reply;
      } catch (error) {
        // What else is wrong is told when it is asked.
        return !(error instanceof ValidationError && error.isTooLong);
      }
    };
    const begins = whole.messages.flatMap(({ role }, index) => (role === "user" ? [index] : []));
    const without = (turns: number): Conversation => {
      const from = begins[turns] ?? 0;
      const kept = (index: number) => index >= from || isSystem(whole.messages[index]!.role);
      return {
        messages: whole.messages.filter((_, index) => kept(index)),
        places: whole.places.filter((_, index) => kept(index)),
      };
    };
    if (begins.length === 0 || (await fits(whole))) return whole;
    // The fewest turns to leave out, between one that is too few and the most there are.
    let [low, high] = [0, begins.length - 1];
    while (low + 1 < high) {
      const middle = (low + high) >> 1;
      if (await fits(without(middle))) high = middle;
      else low = middle;
    }
    return without(high);
  } finally {
    release();
  }
}

const isSystem = (role: string): boolean => role === "system" || role === "developer";
