import { afterAll, beforeAll, expect } from "vitest";
import type { EngineOptions } from "../../src/types/options.js";
import type { BigramModel } from "./bigramModel.js";
import { plainCalls, streamedCalls } from "./calls.js";
import { scriptedModel } from "./scripted.js";
import { Served, textOf } from "./served.js";

/** Scripted models of one vocabulary, by their ids, and what they reply. Opens and closes with the tests around it. */
export class ScriptedReplies {
  served!: Served;
  /** Of tokens. */
  ids!: Record<string, number>;
  /** Of the first model. */
  folder!: string;

  /** Whether content is a call that was not ended, which is a call only where it streams. */
  private readonly breaksOff: (content: string) => boolean;

  constructor(
    scripts: Record<string, Partial<BigramModel>>,
    { breaksOff = () => false, ...options }: EngineOptions & { breaksOff?: (content: string) => boolean } = {},
  ) {
    this.breaksOff = breaksOff;
    beforeAll(async () => {
      const models = await Promise.all(Object.entries(scripts).map(([id, script]) => scriptedModel(id, script)));
      this.ids = models[0]!.ids;
      this.folder = models[0]!.model.path;
      this.served = await Served.open({ ...options, models: models.map(({ model }) => model) });
    });
    afterAll(() => this.served?.close());
  }

  /** A reply in one piece and streamed, which must agree. */
  readonly reply = async (body: Record<string, unknown>) => {
    const whole = { temperature: 0, max_tokens: 60, ...body };
    const answer = await this.served.chat(whole);
    const choice = answer.choices[0]!;
    const chunks = await this.served.chunks(whole);
    const thoughts = chunks.flatMap((chunk) => chunk.choices).map((one) => one.delta.reasoning ?? "");
    expect(thoughts.join("") || null).toBe(choice.message.reasoning);
    if (!this.breaksOff(choice.message.content ?? "")) {
      expect(textOf(chunks)).toBe(choice.message.content ?? "");
      expect(streamedCalls(chunks)).toEqual(plainCalls(choice.message.tool_calls));
    }
    expect(chunks.at(-1)!.choices[0]!.finish_reason).toBe(choice.finish_reason);
    return { ...choice, usage: answer.usage };
  };

  /** Replies that are drawn, one for each of 25 seeds. */
  readonly drawn = async (body: Record<string, unknown>) => {
    const all: Awaited<ReturnType<typeof this.reply>>[] = [];
    for (let seed = 0; seed < 25; seed++)
      all.push(await this.reply({ temperature: 1, seed, max_tokens: 400, ...body }));
    return all;
  };

  /** What another endpoint answers. */
  readonly post = async (path: string, body: object): Promise<string> => {
    const response = await this.served.request("POST", path, { ...body });
    const text = await response.text();
    expect(response.status, text).toBe(200);
    return text;
  };
}
