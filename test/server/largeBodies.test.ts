// Bodies of many megabytes: one is worked on at a time, and the rest of the server goes on meanwhile.

import { readdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { loggedGroups } from "../fixtures/loggedGroups.js";
import { longestTurn } from "../fixtures/longestTurn.js";
import { type Body, Harness } from "./harness.js";

let server: Harness;
beforeAll(async () => {
  server = await Harness.open();
});
afterAll(() => server?.close());

const trajectory = JSON.stringify({
  messages_and_choices: [
    { role: "user", content: "q ".repeat(300) },
    { finish_reason: "stop", message: { role: "assistant", content: "a" } },
  ],
  reward: 1,
});
const groups = (item: string) =>
  `{"split":"val","trajectory_groups":[${Array(28_000).fill(`{"trajectories":[${item}]}`).join(",")}]}`;

it("are all answered, faulty ones too, while others are served", { timeout: 120_000 }, async () => {
  const path = `/v1/preview/models/${await server.makeModel("large")}/log`;
  const good = groups(trajectory);
  const bad = groups(trajectory.replace('"reward":1', '"reward":"1"'));
  expect(good.length).toBeGreaterThan(2 ** 24);
  let answered = 0;
  let meanwhile = 0;
  const large = Promise.all(
    [good, bad, good.slice(0, -1), good].map(async (body) => {
      const { status } = await server.call("POST", path, body);
      answered++;
      return status;
    }),
  );
  while (answered < 4) {
    expect((await server.call("GET", "/v1/models")).status).toBe(200);
    if (answered < 4) meanwhile++;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  expect(await large).toEqual([200, 422, 422, 200]);
  expect(meanwhile).toBeGreaterThan(10);
});

/** `count` megabytes of trajectories with logprobs, in groups of `size`. */
function* trajectoryGroups(megabytes: number, size: number): Generator<string> {
  const sampled = (i: number) => ({ token: `token_id:${i % 50}`, logprob: -(i % 7) - 0.5 });
  const made = (reward: number) =>
    JSON.stringify({
      messages_and_choices: [
        { role: "user", content: "q" },
        {
          finish_reason: "length",
          message: { content: "a" },
          logprobs: { content: Array.from({ length: 400 }, (_, i) => sampled(i + reward)) },
        },
      ],
      reward,
    });
  const [good, bad] = [made(1), made(0)];
  let left = megabytes * 2 ** 20;
  for (let g = 0; left > 0; g++) {
    yield g === 0 ? "" : ",";
    yield '{"metadata":{"scenario_id":"s"},"trajectories":[';
    for (let t = 0; t < size && left > 0; t++) {
      const one = t % 2 === 0 ? good : bad;
      yield t === 0 ? one : `,${one}`;
      left -= one.length;
    }
    yield '],"logs":["x"]}';
  }
}

function streamed(head: string, groups: Iterable<string>, tail = "]}"): ReadableStream<Uint8Array> {
  const texts = (function* () {
    yield `${head}"trajectory_groups":[`;
    yield* groups;
    yield tail;
  })();
  return new ReadableStream({
    pull(controller) {
      let text = "";
      while (text.length < 65_536) {
        const { done, value } = texts.next();
        if (done) break;
        text += value;
      }
      if (text === "") controller.close();
      else controller.enqueue(Buffer.from(text));
    },
  });
}

async function post(path: string, body: ReadableStream<Uint8Array>): Promise<{ status: number; body: Body }> {
  const headers = { authorization: `Bearer ${server.engine.apiKey}`, "content-type": "application/json" };
  const init = { method: "POST", headers, body, duplex: "half" };
  const response = await server.handler(new Request(`http://test${path}`, init as RequestInit));
  return { status: response.status, body: (await response.json()) as Body };
}

it("are never objects of this thread as a whole, be they of one group", { timeout: 240_000 }, async () => {
  const model = await server.makeModel("streamed");
  const path = `/v1/preview/models/${model}/log`;
  const heap = () => process.memoryUsage().heapUsed;
  let most = 0;
  const before = heap();
  const looking = setInterval(() => {
    most = Math.max(most, heap());
  }, 5);
  const megabytes = 40;
  const answers = await Promise.all(
    [4, Number.POSITIVE_INFINITY].map((size) =>
      post(path, streamed('{"split":"val",', trajectoryGroups(megabytes, size))),
    ),
  );
  clearInterval(looking);
  for (const { status, body } of answers) {
    expect(status).toBe(200);
    expect((body as unknown as { metrics: object }).metrics).toMatchObject({
      "val/reward_std_dev": expect.closeTo(0.5, 2),
    });
  }
  // As objects each would be several times its bytes.
  expect(most - before).toBeLessThan(3 * megabytes * 2 ** 20);
  const logged = loggedGroups(server.engine.core.store, model, { split: "val" });
  const sizes = logged.map((group) => group.trajectories.length);
  expect(Math.max(...sizes)).toBeGreaterThan(1000);
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(2 * Math.max(...sizes));
  for (const group of logged) {
    expect(group).toMatchObject({ metadata: { scenario_id: "s" }, logs: ["x"] });
    const rewards = group.trajectories.map(({ reward }) => reward);
    expect(rewards).toEqual(rewards.map((_, t) => 1 - (t % 2)));
  }
});

it("are read back a piece at a time, and by the application in turns", { timeout: 240_000 }, async () => {
  const id = await server.makeModel("readback");
  const megabytes = 24;
  expect(
    (await post(`/v1/preview/models/${id}/log`, streamed('{"split":"val",', trajectoryGroups(megabytes, 1e9)))).status,
  ).toBe(200);
  await server.engine.models.log(id, {
    split: "val",
    trajectory_groups: [{ trajectories: [] }, { trajectories: [], logs: ["x"] }],
  });
  const path = `/v1/preview/models/${id}/trajectories`;
  let bytes = 0;
  let most = 0;
  const heap = () => process.memoryUsage().heapUsed;
  const before = heap();
  const turn = await longestTurn(async () => {
    for await (const chunk of (await server.request("GET", path)).body!) {
      bytes += chunk.byteLength;
      most = Math.max(most, heap());
    }
  });
  expect(bytes).toBeGreaterThan(megabytes * 2 ** 20);
  expect(most - before).toBeLessThan(1.5 * bytes);
  let page: unknown;
  const turnInProcess = await longestTurn(async () => {
    page = await server.engine.models.trajectories(id);
  });
  expect((await server.call("GET", path)).body).toEqual(page);
  expect(Math.max(turn, turnInProcess)).toBeLessThan(100);
  // A model that goes while its groups are read breaks the answer off: half of it is never taken for the whole.
  const leaving = (await server.request("GET", path)).body!.getReader();
  await leaving.read();
  await server.engine.models.delete(id);
  const rest = (async () => {
    while (!(await leaving.read()).done);
  })();
  await expect(rest).rejects.toThrow("deleted");
});

it("say what is wrong with them, as small ones do", { timeout: 120_000 }, async () => {
  const path = `/v1/preview/models/${await server.makeModel("wrong")}/log`;
  const ordinary = () => trajectoryGroups(5, 4);
  const answerTo = async (head: string, groups: Iterable<string>, tail?: string) => {
    const { status, body } = await post(path, streamed(head, groups, tail));
    return { status, detail: body.detail.map(({ loc, type }) => `${loc.join(".")} ${type}`) };
  };
  const split = '{"split":"val",';
  const after = function* (text: string) {
    yield* ordinary();
    yield text;
  };
  const refused = (...detail: unknown[]) => ({ status: 422, detail });
  const at = (rest: string) => expect.stringMatching(new RegExp(`^body\\.trajectory_groups\\.\\d+${rest}`));
  expect(await answerTo("{", ordinary())).toEqual(refused("body.split missing"));
  expect(await answerTo(split, after(',{"trajectories":[{}]}'))).toEqual(
    refused(at("\\.trajectories\\.0\\.reward missing")),
  );
  expect(await answerTo(split, after(",{}"))).toEqual(refused(at("\\.trajectories missing")));
  expect(await answerTo(split, after(",7"))).toEqual(refused(at(" object_type")));
  expect(await answerTo(split, ordinary(), ',],"x":1}')).toEqual(refused("body json_invalid"));
  expect(await answerTo(split, ordinary(), '],"trajectory_groups":[]}')).toEqual(
    refused("body.trajectory_groups value_error"),
  );
  const giant = function* () {
    yield '{"trajectories":[{"reward":1},{"reward":1,"logs":["';
    for (let i = 0; i < 17; i++) yield "x".repeat(2 ** 20);
    yield '"]}]}';
  };
  expect(await answerTo(split, giant())).toEqual(refused("body.trajectory_groups.0.trajectories.1 too_long"));
  const crowded = `{"trajectories":[{"reward":1,"x":[${"[],".repeat(2 ** 21)}0]}]}`;
  expect(await answerTo(split, [crowded])).toEqual(refused("body.trajectory_groups.0.trajectories.0 too_long"));
  expect(server.engine.core.store.trajectories.list(path.split("/")[4]!, { limit: 1 }).items).toEqual([]);
  expect(readdirSync(join(server.home, "temporary"))).toEqual([]);
});

it("train as those that are read at once do", { timeout: 240_000 }, async () => {
  const ends: unknown[] = [];
  for (const padding of [0, 6 * 2 ** 20]) {
    const model = await server.makeModel(`padded${padding}`);
    // An unknown field, which says nothing.
    const head = `{"model_id":"${model}","padding":"${" ".repeat(padding)}","experimental_config":{"learning_rate":1e-3},`;
    const created = await post("/v1/preview/training-jobs", streamed(head, trajectoryGroups(0.2, 4)));
    expect(created.status).toBe(200);
    await server.engine.trainingJobs.wait(created.body.id);
    const { body } = await server.call("GET", `/v1/preview/training-jobs/${created.body.id}/events`);
    ends.push(
      body.data.map(({ type, data }) => ({ type, data: { ...data, estimate: null, tokens_per_second: null } })),
    );
    expect(server.engine.core.store.trajectories.list(model, { limit: 10 }).items.length).toBeGreaterThan(1);
  }
  expect(ends[1]).toEqual(ends[0]);
});
