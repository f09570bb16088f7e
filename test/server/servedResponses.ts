import OpenAI from "openai";
import { afterAll, beforeAll, expect } from "vitest";
import type { ModelResponse, ResponseStreamEvent } from "../../src/types/responses.js";
import { agentModel } from "../conformance/agentModel.js";
import { type Refusal, Served } from "../conformance/served.js";
import { followsTheProtocol } from "./responseProtocol.js";

export const tools = [
  {
    type: "function" as const,
    name: "weather",
    description: "Weather of a city.",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
    strict: null,
  },
  { type: "function" as const, name: "time", parameters: { type: "object", properties: {} }, strict: null },
];

/** A model that thinks, calls and answers, its responses and OpenAI's client. Opens and closes with the tests around it. */
export class ServedResponses {
  served!: Served;
  client!: OpenAI;

  constructor() {
    beforeAll(async () => {
      const { model } = await agentModel("demo");
      // Replies without end take their time where nothing of them is guessed.
      this.served = await Served.open({ models: [model], speculation: "none" });
      const { apiKey } = this.served.engine;
      this.client = new OpenAI({ apiKey, baseURL: `${this.served.address}/v1`, maxRetries: 0 });
    });
    afterAll(() => this.served?.close());
  }

  readonly ask = async (body: Record<string, unknown>): Promise<ModelResponse> => {
    const answer = await this.served.request("POST", "/v1/responses", body);
    const response = (await answer.json()) as ModelResponse;
    expect(answer.status, JSON.stringify(response)).toBe(200);
    return response;
  };

  /** The events of a request, which keep to the protocol. */
  readonly events = async (body: Record<string, unknown>): Promise<ResponseStreamEvent[]> => {
    const answer = await this.served.request("POST", "/v1/responses", { ...body, stream: true });
    const text = await answer.text();
    expect(answer.status, text).toBe(200);
    expect(answer.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    return followsTheProtocol(text);
  };

  readonly refusal = async (body: Record<string, unknown>, field: string): Promise<Refusal> => {
    const answer = await this.served.request("POST", "/v1/responses", body);
    const refused = (await answer.json()) as Refusal;
    expect(answer.status, JSON.stringify(refused).slice(0, 500)).toBe(422);
    expect(refused.detail.map(({ loc }) => loc.join("."))).toContain(`body.${field}`);
    return refused;
  };
}

export const last = (all: ResponseStreamEvent[]) => (all.at(-1) as { response: ModelResponse }).response;
