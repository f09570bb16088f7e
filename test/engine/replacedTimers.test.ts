/** Applications test themselves with timers that do not run by themselves, or in realms whose timers are a browser's. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type ChatCompletion, Engine } from "../../src/index.js";
import { gathered } from "./fastJob.js";

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "engine-test-"));
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
  rmSync(home, { recursive: true, force: true });
});

const replacements = {
  "timers that stand still": () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "setInterval", "setImmediate", "clearTimeout", "clearInterval"] });
  },
  "a browser's timers": () => {
    for (const name of ["setTimeout", "setInterval"]) vi.stubGlobal(name, () => 1);
    for (const name of ["clearTimeout", "clearInterval"]) vi.stubGlobal(name, () => undefined);
    for (const name of ["setImmediate", "clearImmediate"]) vi.stubGlobal(name, undefined);
  },
};

describe.each(Object.entries(replacements))("with %s", (_, replace) => {
  it("opens, answers, trains, and closes", async () => {
    replace();
    const engine = await Engine.open({ home });
    const model = await engine.models.create({ project: "p", name: "m", base_model: "anneal/tiny" });
    const { choices } = (await engine.chat.completions.create({
      model: "anneal/tiny",
      messages: [{ role: "user", content: "Hello" }],
      max_tokens: 4,
    })) as ChatCompletion;
    expect(choices[0]!.finish_reason).toBeTruthy();
    const response = await engine.responses.create({ model: "anneal/tiny", input: "Hello", background: true });
    for await (const event of await engine.responses.retrieve(response.id, { stream: true })) void event;
    expect((await engine.responses.retrieve(response.id)).status).toBe("completed");
    const trajectory_groups = await gathered(engine, model);
    const { id } = await engine.trainingJobs.create({ model_id: model.id, trajectory_groups });
    expect((await engine.trainingJobs.wait(id)).status).toBe("succeeded");
    await engine.close();
  });
});
