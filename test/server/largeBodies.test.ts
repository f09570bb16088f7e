// Bodies of many megabytes: one is worked on at a time, and the rest of the server goes on meanwhile.

import { afterAll, beforeAll, expect, it } from "vitest";
import { Harness } from "./harness.js";

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
