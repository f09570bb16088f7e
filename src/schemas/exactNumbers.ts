// Where in training data numbers are kept as they are spelled: in what chat templates print, so that a prompt is rendered in training as
// it was for the chat completion that is learnt from.

import type { ExactFields } from "../json.js";

const tools: ExactFields = "spellings";

/** In a trajectory. */
export const TRAJECTORY_NUMBERS: ExactFields = { tools, additional_histories: { tools } };

/** In a conversation for supervised training. Arguments of calls may be objects in it. */
export const CONVERSATION_NUMBERS: ExactFields = { messages: { tool_calls: "spellings" }, tools };
