import type OpenAI from "openai";
import { describe, expect, expectTypeOf, it } from "vitest";
import type * as z from "zod";
import { turnsDuring } from "../../test/fixtures/turns.js";
import { ValidationError } from "../errors.js";
import type { ModelCreateParams } from "../types/models.js";
import type { SftTrainingJobCreateParams, TrainingJob, TrainingJobCreateParams } from "../types/training.js";
import type { MessageOrChoice, TrajectoryGroup, TrajectoryTool } from "../types/trajectories.js";
import { chatCompletionCreate } from "./chat.js";
import { sftTrainingJobCreate, type trainingJob, trainingJobCreate } from "./jobs.js";
import { modelCreate } from "./models.js";
import { orderedPageQuery } from "./pages.js";
import { trajectoryGroup, trajectoryLog } from "./trajectories.js";
import { validate, validateAsync } from "./validate.js";

const model_id = "5f0a8f3c-6a51-4a3e-9c55-6d7f0f8f2a10";

function issuesOf(action: () => unknown) {
  try {
    action();
  } catch (error) {
    if (error instanceof ValidationError) return error.issues.map(({ loc, type }) => `${loc.join(".")} ${type}`);
    throw error;
  }
  return [];
}

const choice = { finish_reason: "stop", index: 0, message: { role: "assistant", content: "4" } };

describe("validate", () => {
  it("takes no object without fields for settings that are left out", async () => {
    const job = { model_id, trajectory_groups: [] };
    for (const config of [new Map([["learning_rate", 1]]), new Set(), Promise.resolve({ learning_rate: 1 })]) {
      const given = { ...job, experimental_config: config };
      expect(issuesOf(() => validate(trainingJobCreate, given, { strict: true }))).toEqual([
        "body.experimental_config object_type",
      ]);
      await expect(validateAsync(trainingJobCreate, config, { strict: true })).rejects.toMatchObject({
        issues: [{ loc: ["body"], type: "object_type" }],
      });
    }
    expect(issuesOf(() => validate(trainingJobCreate, job, { strict: true }))).toEqual([]);
  });

  it("stops looking after a handful of faults, and does not look into lists and maps that are too long", async () => {
    let looked = 0;
    const counted = <T extends object>(target: T): T =>
      new Proxy(target, {
        get: (object, key) => {
          if (/^\d+$/.test(String(key))) looked++;
          return Reflect.get(object, key);
        },
      });
    const faulty = () => counted(Array(100_000).fill(1));
    const tooLong = () => counted(Array(2_000_000).fill("a"));
    for (const [schema, value] of [
      [chatCompletionCreate, { messages: faulty() }],
      [trainingJobCreate, { model_id, trajectory_groups: faulty() }],
      [trainingJobCreate, { model_id, trajectory_groups: [{ trajectories: faulty() }] }],
      [trajectoryLog, { split: "val", trajectory_groups: [{ trajectories: [{ messages_and_choices: faulty() }] }] }],
      [chatCompletionCreate, { messages: [{ role: "user" }], stop: tooLong() }],
      [chatCompletionCreate, { messages: [{ role: "user" }], stop_token_ids: tooLong() }],
      [chatCompletionCreate, { messages: tooLong() }],
    ] as const) {
      looked = 0;
      const issues = issuesOf(() => validate(schema, value));
      expect(issues.length).toBeGreaterThan(0);
      expect(issues.length).toBeLessThan(18);
      expect(looked).toBeLessThan(40);
      looked = 0;
      await expect(validateAsync(schema, value)).rejects.toThrow(ValidationError);
      // Its size is counted once, up to what is small.
      expect(looked).toBeLessThan(20_000);
    }
    const fields = Object.fromEntries(Array.from({ length: 100_000 }, (_, i) => [`field${i}`, 1]));
    expect(issuesOf(() => validate(chatCompletionCreate, { messages: [{ role: "user", ...fields }] }))).toEqual([
      "body.messages.0 too_long",
    ]);
    const names = Object.fromEntries(Array.from({ length: 100_000 }, (_, i) => [`name${i}`, 1]));
    const trajectory = { messages_and_choices: [], reward: 1, metrics: names };
    expect(
      issuesOf(() => validate(trajectoryLog, { split: "val", trajectory_groups: [{ trajectories: [trajectory] }] })),
    ).toEqual(["body.trajectory_groups.0.trajectories.0.metrics too_long"]);
  });

  it("lists the fields of an object only once that has more than any may have, wherever it is", async () => {
    const fields = Object.fromEntries(Array.from({ length: 2 ** 18 + 1 }, (_, i) => [`key${i}`, i]));
    const messages = [{ role: "user", content: "Hi" }];
    for (const [place, request] of [
      ["", (map: object) => map],
      ["chat_template_kwargs", (map: object) => ({ messages, chat_template_kwargs: map })],
      ["messages.0", (map: object) => ({ messages: [map] })],
      ["structured_outputs.json.properties", (map: object) => ({ structured_outputs: { json: { properties: map } } })],
    ] as const) {
      let listings = 0;
      const counted = new Proxy(fields, {
        ownKeys(target) {
          listings++;
          return Reflect.ownKeys(target);
        },
      });
      const asked = validateAsync(chatCompletionCreate, request(counted), { strict: true });
      const loc = ["body", ...place.split(".").filter((part) => part !== "")];
      const issue = { loc, msg: "Too big: expected at most 262144 entries", type: "too_long" };
      await expect(asked).rejects.toMatchObject({ issues: [issue] });
      expect(listings).toBe(1);
    }
  });

  it("names the field that nests too deep, of a request that is small or large", async () => {
    const lists = (depth: number) => JSON.parse("[".repeat(depth) + "]".repeat(depth)) as unknown;
    const objects = (depth: number) => JSON.parse(`${'{"a":'.repeat(depth)}1${"}".repeat(depth)}`) as unknown;
    const message = { role: "user", content: "Hi" };
    const tool = (parameters: unknown) => ({ type: "function", function: { name: "f", parameters } });
    const call = (given: unknown) => ({ function: { name: "f", arguments: given } });
    const tag = (json: unknown) => ({ type: "json_schema", json_schema: { schema: { const: json } } });
    const cyclic: Record<string, unknown> = {};
    cyclic.self = cyclic;
    for (const [request, place] of [
      [{ messages: [{ ...message, zz: lists(5000) }] }, "messages.0.zz"],
      [{ messages: [{ ...message, zz: objects(901) }] }, "messages.0.zz"],
      [{ messages: [{ ...message, content: [{ type: "text", zz: lists(20_000) }] }] }, "messages.0.content.0"],
      [{ messages: [{ role: "assistant", tool_calls: [call(objects(20_000))] }] }, "messages.0.tool_calls.0"],
      [
        { messages: [message], tools: [tool({ type: "object", default: lists(2000) })] },
        "tools.0.function.parameters.default",
      ],
      [{ messages: [message], tools: [{ ...tool({}), zz: lists(6000) }] }, "tools.0.zz"],
      [{ messages: [message], chat_template_kwargs: { x: lists(2000) } }, "chat_template_kwargs.x"],
      [{ messages: [message], chat_template_kwargs: cyclic }, "chat_template_kwargs.self"],
      [{ messages: [message], response_format: tag(lists(1000)) }, "response_format.json_schema.schema.const"],
      [{ messages: [message], structured_outputs: { json: { const: lists(1000) } } }, "structured_outputs.json.const"],
    ] as const) {
      const issues = [{ loc: ["body", ...place.split(".")], msg: "is nested more than 900 deep", type: "value_error" }];
      expect(() => validate(chatCompletionCreate, request)).toThrow(expect.objectContaining({ issues }));
      const large = { ...request, stop: Array(1000).fill("stop ".repeat(200)) };
      await expect(validateAsync(chatCompletionCreate, request)).rejects.toMatchObject({ issues });
      await expect(validateAsync(chatCompletionCreate, large)).rejects.toMatchObject({ issues });
    }
    const deepest = { messages: [{ ...message, zz: objects(900) }], tools: [tool({ default: objects(900) })] };
    expect(issuesOf(() => validate(chatCompletionCreate, deepest))).toEqual([]);
  });

  it("gives other work its turn while it checks a large value, with the same outcome", async () => {
    const trajectories = Array.from({ length: 30_000 }, () => ({ messages_and_choices: [choice], reward: 1 }));
    const value = { split: "val", trajectory_groups: [{ trajectories }] };
    let checked: unknown;
    const turns = await turnsDuring(async () => {
      checked = await validateAsync(trajectoryLog, value);
    });
    expect(turns).toBeGreaterThan(3);
    expect(checked).toEqual(validate(trajectoryLog, value));
    const wrong = { split: "val", trajectory_groups: [{ trajectories: [...trajectories, 1] }] };
    const error = await validateAsync(trajectoryLog, wrong).catch((error) => error);
    expect(error.issues).toEqual([
      {
        loc: ["body", "trajectory_groups", "0", "trajectories", "30000"],
        msg: expect.any(String),
        type: "object_type",
      },
    ]);
  });

  it("takes a name __proto__ in a map for data, as any other", async () => {
    const map = JSON.parse('{"__proto__": "x", "a": "y"}');
    const kept = (value: unknown) => {
      expect(Object.entries(value as object)).toEqual(Object.entries(map));
      expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
    };
    const request = { messages: [{ role: "user", content: "Hi" }], chat_template_kwargs: map, documents: [map] };
    for (const read of [validate(chatCompletionCreate, request), await validateAsync(chatCompletionCreate, request)]) {
      kept(read.chat_template_kwargs);
      kept(read.documents![0]);
    }
  });

  it("lists a handful of the fields at fault, and says when there are more", () => {
    const action = (count: number) => () =>
      validate(trainingJobCreate, { model_id, trajectory_groups: Array(count).fill(5) });
    expect(issuesOf(action(16))).toHaveLength(16);
    const many = issuesOf(action(100_000));
    expect(many).toHaveLength(17);
    expect(many.at(-1)).toBe("body too_many_issues");
    const messages = [{ role: "user" }];
    const wrong = { messages, engine_xargs: { list: Array(15_000).fill(null) } };
    expect(issuesOf(() => validate(chatCompletionCreate, wrong))).toHaveLength(17);
    const document = Object.fromEntries(Array.from({ length: 150_000 }, (_, i) => [`key${i}`, i]));
    expect(issuesOf(() => validate(chatCompletionCreate, { messages, documents: [document] }))).toEqual([
      "body.documents.0 too_long",
    ]);
  });

  it("names every field at fault, array positions as strings", () => {
    const body = {
      model_id: "x",
      trajectory_groups: [
        { trajectories: [{ messages_and_choices: [{ role: "user", content: 1 }], reward: null }] },
        {
          trajectories: [{ messages_and_choices: [{ ...choice, logprobs: { content: [{ token: 1, logprob: 0 }] } }] }],
        },
      ],
      experimental_config: { advantage_balance: 2, importance_sampling_level: "word" },
    };
    expect(issuesOf(() => validate(trainingJobCreate, body)).sort()).toEqual([
      "body.experimental_config.advantage_balance less_than_equal",
      "body.experimental_config.importance_sampling_level literal_error",
      "body.model_id regex_parsing",
      "body.trajectory_groups.0.trajectories.0.messages_and_choices.0.content string_type",
      "body.trajectory_groups.0.trajectories.0.reward number_type",
      "body.trajectory_groups.1.trajectories.0.messages_and_choices.0.logprobs.content.0.token string_type",
      "body.trajectory_groups.1.trajectories.0.reward missing",
    ]);
  });

  it("says of a choice between a literal and another kind all that is expected, first what was meant", () => {
    const said = (batch_size: unknown) => {
      const asked = { model_id, training_data_url: "https://a.example/b", config: { batch_size } };
      try {
        return validate(sftTrainingJobCreate, asked).config?.batch_size;
      } catch (error) {
        return (error as ValidationError).issues.map(({ msg, type }) => `${type}: ${msg}`);
      }
    };
    expect(said(3)).toBe(3);
    expect(said("auto")).toBe("auto");
    expect(said(1.5)).toEqual(['int_type: Invalid input: expected int, received number; or expected "auto"']);
    expect(said("x")).toEqual(['literal_error: Invalid input: expected "auto"; or expected number, received string']);
  });

  it("ignores unknown fields on the wire and names them in process", () => {
    const body = { project: "p", name: "n", base_model: "b", colour: "red" };
    expect(validate(modelCreate, body)).toEqual({ project: "p", name: "n", base_model: "b" });
    expect(issuesOf(() => validate(modelCreate, body, { strict: true }))).toEqual(["body.colour extra_forbidden"]);
    const job = { model_id: crypto.randomUUID(), training_data_url: "/data", experimental_config: { anything: 1 } };
    const sft = { ...job, config: { epochs: 2, metric_logging: { step: 1 } } };
    expect(validate(sftTrainingJobCreate, sft).config).toEqual({ metric_logging: {} });
    expect(issuesOf(() => validate(sftTrainingJobCreate, sft, { strict: true }))).toEqual([
      "body.config.metric_logging.step extra_forbidden",
      "body.config.epochs extra_forbidden",
    ]);
    validate(sftTrainingJobCreate, { ...job, config: null }, { strict: true });
    const rl = { ...job, training_data_url: undefined, trajectory_groups: [] };
    expect(issuesOf(() => validate(trainingJobCreate, rl, { strict: true }))).toContain(
      "body.experimental_config.anything extra_forbidden",
    );
  });

  it("takes null for absent", () => {
    const config = Object.fromEntries(
      Object.keys(trainingJobCreate.shape.experimental_config.unwrap().unwrap().shape).map((key) => [key, null]),
    );
    expect(
      issuesOf(() => validate(trainingJobCreate, { model_id, trajectory_groups: [], experimental_config: config })),
    ).toEqual([]);
    expect(
      issuesOf(() =>
        validate(sftTrainingJobCreate, { model_id, training_data_url: "x", config: null, experimental_config: null }),
      ),
    ).toEqual([]);
    expect(validate(orderedPageQuery, { limit: null, order: null })).toMatchObject({ limit: 20, order: "asc" });
  });

  it.each(["", ".", "..", "a/b", "a b", "é", "x".repeat(129), "a\n"])("refuses the name %j", (name) => {
    expect(issuesOf(() => validate(modelCreate, { project: "p", name, base_model: "b" }))).toHaveLength(1);
  });

  it("keeps what a choice carries beyond the known fields, and drops it from groups", () => {
    const group = {
      trajectories: [
        {
          messages_and_choices: [
            { role: "user", content: "2+2?" },
            { ...choice, sampling: { temperature: 2 } },
          ],
          reward: 1,
        },
      ],
      anything: 1,
    };
    expect(validate(trajectoryGroup, group)).toEqual({ trajectories: group.trajectories });
  });
});

it("schemas yield the public types", () => {
  expectTypeOf<z.output<typeof modelCreate>>().toExtend<ModelCreateParams>();
  expectTypeOf<z.output<typeof trainingJobCreate>>().toExtend<TrainingJobCreateParams>();
  expectTypeOf<z.output<typeof trajectoryGroup>>().toExtend<TrajectoryGroup>();
  expectTypeOf<z.output<typeof sftTrainingJobCreate>>().toExtend<SftTrainingJobCreateParams>();
  expectTypeOf<z.output<typeof trainingJob>>().toEqualTypeOf<TrainingJob>();
  // What the openai package returns and takes can be recorded as it is.
  expectTypeOf<OpenAI.ChatCompletion.Choice>().toExtend<MessageOrChoice>();
  expectTypeOf<OpenAI.ChatCompletionMessageParam>().toExtend<MessageOrChoice>();
  expectTypeOf<OpenAI.ChatCompletionFunctionTool>().toExtend<TrajectoryTool>();
});
