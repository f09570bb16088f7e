import { resolve } from "node:path";
import { defineCommand } from "./command.js";
import { engineFlags } from "./engineFlags.js";
import { findModel } from "./findModel.js";
import { choice, integer, number, text, toggle, UsageError } from "./flags.js";
import { openExistingHome } from "./openHome.js";
import { shortNumber } from "./terminalText.js";

const flags = {
  to: choice("KIND", ["vllm"], "the default"),
  url: text("URL", "the server's address, such as http://127.0.0.1:8000"),
  "server-key": text("KEY", "the server's API key (default: VLLM_API_KEY of the environment)"),
  shared: text("PATH", "a folder that the server sees too (default: it reads the checkpoint in the home)"),
  "server-path": text("PATH", "that folder as the server sees it (default: the same)"),
  name: text("NAME", "what the server calls the model (default PROJECT/NAME); the step is added as :stepN"),
  base: text("NAME", "what the adapter calls its base model"),
  "keep-latest": toggle("leave the name without a step as it is"),
  "no-check": toggle("do not compare a greedy reply of the server with this engine's"),
  "max-difference": number("X", "of a token's logprobs in that reply (default 0.1)", (bound) => bound >= 0, "from 0"),
  "check-tokens": integer("N", "tokens of that reply (default 32)", { to: 4096 }),
  json: toggle("print what was published as JSON"),
  ...engineFlags,
};

export const publish = defineCommand({
  name: "publish",
  arguments: ["NAME[:STEP]"],
  summary: "have a vLLM server serve a checkpoint",
  details: `Puts a checkpoint (the latest, or that of :STEP) where a vLLM server sees it and has it served there as PROJECT/NAME:stepN.
When its greedy tokens agree with this engine's, PROJECT/NAME stands for it from then on, also under load. The server must
have been started with --enable-lora, --max-lora-rank at least the adapter's, and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1, on
the same base model. Works beside a running anneal server.`,
  flags,
  async run(values, [target]) {
    if (values.url === undefined) throw new UsageError("--url is needed: the address of the server");
    const [, name, step] = /^(.*?)(?:[:@](?:step)?(\d+))?$/.exec(target!)!;
    await using engine = await openExistingHome(values);
    const { id } = await findModel(engine, name!);
    const check = {
      max_tokens: values["check-tokens"] ?? null,
      max_logprob_difference: values["max-difference"] ?? null,
    };
    const published = await engine.models.publish(id, {
      to: values.to ?? null,
      url: values.url,
      api_key: values["server-key"] ?? process.env.VLLM_API_KEY ?? null,
      step: step === undefined ? null : Number(step),
      name: values.name ?? null,
      shared: values.shared === undefined ? null : resolve(values.shared),
      server_path: values["server-path"] ?? null,
      base_model: values.base ?? null,
      latest: !values["keep-latest"],
      check: values["no-check"] ? false : check,
    });
    if (values.json) {
      console.log(JSON.stringify(published));
      return 0;
    }
    const { latest_name, check: found, path } = published;
    console.log(
      `${values.url} serves ${published.name}${latest_name ? ` and, from now on, ${latest_name}` : ""}, from ${path}`,
    );
    if (found) {
      const difference = shortNumber(found.max_logprob_difference);
      console.log(`${found.tokens} greedy tokens agree, logprobs within ${difference}`);
    }
    return 0;
  },
});
