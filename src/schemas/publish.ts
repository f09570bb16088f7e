import * as z from "zod";
import { field, named } from "./fields.js";
import { list, looseObject } from "./limited.js";
import { settingsObject } from "./validate.js";

const MAX_CHECK_MESSAGES = 1024;
const MAX_CHECK_TOKENS = 4096;

const publishCheck = named(
  "PublishCheckParams",
  settingsObject({
    messages: field(
      list(looseObject({ role: field(z.string(), "Who says it.") }), MAX_CHECK_MESSAGES)
        .min(1)
        .nullish(),
      "What both are asked. Default: a short question.",
    ),
    max_tokens: field(z.int().min(1).max(MAX_CHECK_TOKENS).nullish(), "Tokens that are compared.", { default: 32 }),
    max_logprob_difference: field(
      z.number().min(0).nullish(),
      "By how much a token's logprobs may differ, in nats: 1e-3 holds where both compute in float32, bfloat16 needs a tenth or so. Where the greedy tokens part, the two likeliest must be as close as this.",
      { default: 0.1 },
    ),
  }),
  "One greedy reply of the server, compared with this engine's.",
);

export const modelPublish = named(
  "ModelPublishParams",
  settingsObject({
    to: field(
      z.literal("vllm").nullish(),
      "What the server is: one with vLLM's `/v1/load_lora_adapter`, which vLLM has when it was started with `--enable-lora` and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1.",
      { default: "vllm" },
    ),
    url: field(z.string().min(1), 'The server\'s address, such as "http://127.0.0.1:8000", with or without "/v1".'),
    api_key: field(z.string().nullish(), "The server's key. Default: none."),
    step: field(z.int().min(0).nullish(), "Default: the latest."),
    name: field(
      z.string().min(1).max(256).nullish(),
      "What the server shall call the model: the step is added as `:stepN`. Default: `project/name`.",
    ),
    shared: field(
      z.string().min(1).nullish(),
      "A folder that the server sees too: the checkpoint is copied into a folder of its own there. Default: the server reads the checkpoint where the home keeps it, on this machine.",
    ),
    server_path: field(
      z.string().min(1).nullish(),
      "The shared folder as the server sees it. Default: `shared`. Needs `shared`.",
    ),
    base_model: field(
      z.string().min(1).nullish(),
      "What the copy's configuration calls the base model. Default: its id where that reads `owner/name`, else its folder.",
    ),
    latest: field(
      z.boolean().nullish(),
      "Whether the name without a step stands for this one from now on, replaced in place under load.",
      { default: true },
    ),
    check: field(
      z.union([z.literal(false), publishCheck]).nullish(),
      "The comparison before the name without a step is replaced; false: none. Default: with its own defaults.",
    ),
  }),
  "A checkpoint for a server of another engine.",
);

export const modelPublished = named(
  "ModelPublished",
  z.object({
    name: field(z.string(), "What the server calls this step."),
    latest_name: field(z.string().nullable(), "The name that stands for the latest; null: it was left alone."),
    step: field(z.int(), "The checkpoint's step."),
    path: field(z.string(), "The checkpoint's folder as the server sees it."),
    check: field(
      z
        .object({
          tokens: field(z.int(), "How many were compared."),
          agreed_tokens: field(z.int(), "How many agree before the first that does not, if any."),
          max_logprob_difference: field(z.number(), "The largest difference of a token's logprobs, in nats."),
        })
        .nullable(),
      "What the comparison found; null: there was none.",
    ),
  }),
  "What a server serves now.",
);
