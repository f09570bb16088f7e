import type OpenAI from "openai";
import { describe, expect, expectTypeOf, it } from "vitest";
import type { z } from "zod";
import { ValidationError } from "../errors.js";
import type { ModelCreateParams } from "../types/models.js";
import type { SftTrainingJobCreateParams, TrainingJob, TrainingJobCreateParams } from "../types/training.js";
import type { MessageOrChoice, TrajectoryGroup, TrajectoryTool } from "../types/trajectories.js";
import { chatCompletionCreate } from "./chat.js";
import { sftTrainingJobCreate, type trainingJob, trainingJobCreate } from "./jobs.js";
import { modelCreate } from "./models.js";
import { orderedPageQuery } from "./pages.js";
import { trajectoryGroup } from "./trajectories.js";
import { validate } from "./validate.js";

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
  it("lists a hundred of the fields at fault, and says when there are more", () => {
    const action = (count: number) => () =>
      validate(trainingJobCreate, { model_id, trajectory_groups: Array(count).fill(5) });
    expect(issuesOf(action(100))).toHaveLength(100);
    const many = issuesOf(action(100_000));
    expect(many).toHaveLength(101);
    expect(many.at(-1)).toBe("body too_many_issues");
    const messages = [{ role: "user" }];
    const wrong = { messages, engine_xargs: { list: Array(150_000).fill(null) } };
    expect(issuesOf(() => validate(chatCompletionCreate, wrong))).toHaveLength(101);
    const document = Object.fromEntries(Array.from({ length: 150_000 }, (_, i) => [`key${i}`, i]));
    expect(issuesOf(() => validate(chatCompletionCreate, { messages, documents: [document] }))).toEqual([
      "body value_error",
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
