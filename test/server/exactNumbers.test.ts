// Numbers that a template prints are printed in training as they were for the chat completion: `0.0` is not `0`.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { agent } from "../conformance/agentModel.js";
import { writeBigramModel } from "../conformance/bigramModel.js";
import { Served } from "../conformance/served.js";

const template =
  "{{ (tools or []) | tojson }}{% for m in messages %}<|{{ m.role }}|>{{ m.content or '' }}" +
  "{% for c in m.tool_calls or [] %}{{ c.function.arguments | tojson }}{% endfor %}<|end|>{% endfor %}" +
  "{% if add_generation_prompt %}<|assistant|>{% endif %}";

let served: Served;
let model: string;
beforeAll(async () => {
  const { path } = await writeBigramModel({ ...agent, template });
  served = await Served.open({ models: [{ id: "demo", path }], dataRoots: [path] });
  model = (await served.engine.models.create({ project: "p", name: "exact", base_model: "demo" })).id;
  for (const number of NUMBERS) writeFileSync(join(path, file(number)), `${conversation(number)}\n`);
  folder = path;
});
afterAll(() => served?.close());

const NUMBERS = ["7", "7.0", "12345678901234567890"];
let folder: string;
const file = (number: string) => `${number}.jsonl`;
/** Characters of the template's text, each a token, more than of "7". */
const MORE = [0, 2, 19];

const tools = (number: string) =>
  `[{"type":"function","function":{"name":"f","parameters":{"properties":{"x":{"maximum":${number}}}}}}]`;
const user = '{"role":"user","content":"Hi"}';
const assistant = '{"role":"assistant","content":"Hello"}';
/** As it was sampled. */
const choice = `{"finish_reason":"stop","message":${assistant},"logprobs":{"content":[{"token":"token_id:5","logprob":-1.5}]}}`;
const conversation = (number: string, called = number) => {
  const call = `{"id":"c","type":"function","function":{"name":"f","arguments":{"x":${called}}}}`;
  const turns = `{"role":"assistant","tool_calls":[${call}]},{"role":"tool","tool_call_id":"c","content":"1"},${assistant}`;
  return `{"messages":[${user},${turns}],"tools":${tools(number)}}`;
};

async function answerTo(path: string, body: string): Promise<Record<string, unknown>> {
  const answer = await served.request("POST", path, body);
  const text = await answer.text();
  expect(answer.status, text).toBe(200);
  return JSON.parse(text) as Record<string, unknown>;
}

const promptTokens = async (number: string) => {
  const { usage } = await answerTo(
    "/v1/chat/completions",
    `{"model":"demo","max_tokens":1,"messages":[${user}],"tools":${tools(number)}}`,
  );
  return (usage as { prompt_tokens: number }).prompt_tokens;
};

const estimated = async (kind: string, fields: string) =>
  (await answerTo(`/v1/preview/${kind}/estimate`, `{"model_id":"${model}",${fields}}`)).tokens as number;

/** One group whose trajectories share the prompt, of about as many bytes. */
const rl = (number: string, bytes = 0) => {
  const trajectory = (reward: number) =>
    `{"messages_and_choices":[${user},${choice}],"reward":${reward},"tools":${tools(number)},"logs":["${"x".repeat(bytes)}"]}`;
  return estimated(
    "training-jobs",
    `"trajectory_groups":[{"trajectories":[${trajectory(0)},${trajectory(1)},${trajectory(1.5)}]}]`,
  );
};

const sft = (data: string) => estimated("sft-training-jobs", data);

it.each<[string, (number: string) => Promise<number>, times: number]>([
  ["a chat", promptTokens, 1],
  ["a reinforcement learning job", (number) => rl(number), 1],
  ["a job whose body is read elsewhere", (number) => rl(number, 2 ** 21), 1],
  ["a supervised job", (number) => sft(`"data":[${conversation(number)}]`), 2],
  ["a supervised job from a file", (number) => sft(`"training_data_url":"${join(folder, file(number))}"`), 2],
])("in the prompts of %s", { timeout: 60_000 }, async (_, tokens, times) => {
  const [least, ...others] = await Promise.all(NUMBERS.map(tokens));
  expect(others.map((count) => count - least!)).toEqual(MORE.slice(1).map((more) => times * more));
});

it("and in what is logged and listed again", { timeout: 60_000 }, async () => {
  const logged = (bytes: number) => {
    const trajectory = `{"messages_and_choices":[${user},${choice}],"reward":1,"tools":${tools("7.0")},"additional_histories":[{"messages_and_choices":[${user}],"tools":${tools("1e2")}}],"logs":["${"x".repeat(bytes)}"]}`;
    return answerTo(
      `/v1/preview/models/${model}/log`,
      `{"split":"val","trajectory_groups":[{"trajectories":[${trajectory}]}]}`,
    );
  };
  await logged(0);
  await logged(5 * 2 ** 20);
  const listed = await (await served.request("GET", `/v1/preview/models/${model}/trajectories`)).text();
  expect(listed.match(/"maximum":7\.0\}/g)).toHaveLength(2);
  expect(listed.match(/"maximum":1e2\}/g)).toHaveLength(2);
});
