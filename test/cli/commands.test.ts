import { closeSync, existsSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { command, finish, killAll, start } from "./command.js";

const manifest = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as {
  version: string;
};

let home: string;
beforeAll(() => {
  home = mkdtempSync(join(tmpdir(), "cli-test-"));
});
afterAll(() => {
  killAll();
  rmSync(home, { recursive: true, force: true });
});

describe("anneal", () => {
  it("explains itself, and refuses what it does not know with status 2", async () => {
    const [help, version, nothing, ...refused] = await Promise.all([
      command(["--help"]),
      command(["--version"]),
      command([]),
      command(["fly"]),
      command(["serve", "--port", "99999"]),
      command(["serve", "./folder"]),
      command(["serve", "--modle", "x"]),
      command(["demo", "--seed", "x"]),
    ]);
    expect(help.code).toBe(0);
    for (const name of ["serve", "chat", "demo", "train", "models", "runs", "bench", "keys"])
      expect(help.out).toContain(name);
    expect(version).toMatchObject({ code: 0, out: `${manifest.version}\n` });
    expect([nothing, ...refused].map(({ code }) => code)).toEqual([2, 2, 2, 2, 2, 2]);
    expect(refused.map(({ err }) => err.split("\n")[0])).toEqual([
      'anneal: there is no command "fly"',
      'anneal: --port takes a whole number from 0 to 65535, not "99999"',
      'anneal: what is "./folder"? this command takes only options',
      "anneal: there is no option --modle; did you mean --model?",
      'anneal: --seed takes a whole number from 0 to 1000000000, not "x"',
    ]);
  });

  it("understands other ways of asking for help and version", async () => {
    const asked = [["help", "chat"], ["chat", "--help"], ["version"], ["-v"], ["--versoin"], ["--port", "1"]];
    const [first, second, ...others] = await Promise.all(asked.map((args) => command(args)));
    expect(first).toEqual(second);
    expect(others.map(({ code, out, err }) => [code, out || err.split("\n")[0]])).toEqual([
      [0, `${manifest.version}\n`],
      [0, `${manifest.version}\n`],
      [2, "anneal: there is no option --versoin here; did you mean --version?"],
      [2, "anneal: there is no option --port here"],
    ]);
  });

  it("does not mind a reader that has seen enough", async () => {
    const unread = start(["--help"]);
    unread.stdout!.destroy();
    expect(await finish(unread)).toMatchObject({ code: 0, err: "" });
  });

  it.runIf(process.platform === "linux")("says that its output cannot be written", async () => {
    const full = openSync("/dev/full", "w");
    const child = start(["--help"], {}, ["pipe", full, "pipe"]);
    closeSync(full);
    expect(await finish(child)).toMatchObject({
      code: 1,
      err: expect.stringMatching(/^anneal: the output cannot be written: ENOSPC: [^\n]+\n$/),
    });
  });

  it("answers one message and is gone", async () => {
    const reply = await command(["chat", "--max-tokens", "4", "--temperature", "0"], "Hello");
    expect(reply).toMatchObject({ code: 0, err: "" });
    expect(reply.out.trim().length).toBeGreaterThan(0);
    const missing = await command(["chat", "--model", join(home, "nothing"), "Hello"]);
    expect([missing.code, missing.err]).toEqual([1, expect.stringContaining("there is no such folder")]);
    const nowhere = await command(["chat", "--url", "nonsense", "--api-key", "x", "Hello"]);
    expect(nowhere).toMatchObject({
      code: 1,
      err: 'anneal: url: "nonsense" is no address such as http://127.0.0.1:8000\n',
    });
  });
});

it("commands for what a home has make none", async () => {
  const typo = join(home, "typo");
  const commands = [
    ["runs", "show", "speller"],
    ["models"],
    ["models", "delete", "demo/speller"],
    ["keys", "list"],
    ["keys", "create"],
  ];
  const said = await Promise.all(commands.map((args) => command([...args, "--home", typo])));
  for (const { code, err } of said)
    expect([code, err.split("\n")[0]]).toEqual([1, `anneal: there is no home at ${typo}`]);
  expect(existsSync(typo)).toBe(false);
  const fresh = await finish(start(["models"], { HOME: typo }));
  expect(fresh).toMatchObject({ code: 0, out: expect.stringContaining("anneal/tiny") });
  expect(existsSync(typo)).toBe(false);
});

describe("anneal serve", () => {
  it("serves with nothing said, works beside the other commands, and closes on an interrupt", async () => {
    const server = start(["serve", "--port", "0"], { ANNEAL_HOME: home });
    const closed = finish(server);
    const line = await new Promise<string>((resolve) => {
      let text = "";
      server.stdout!.on("data", (chunk) => {
        text += chunk;
        if (text.includes("Home:")) resolve(text);
      });
    });
    const base = /http:\S+\/v1/.exec(line)![0];
    const key = /ann-\S+/.exec(line)![0];
    const chat = await fetch(`${base}/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({ messages: [{ role: "user", content: "hi" }], max_tokens: 2 }),
    });
    expect(chat.status).toBe(200);
    // Tools are not parsed unless that is asked for.
    const tools = [{ type: "function", function: { name: "f", parameters: {} } }];
    const auto = await fetch(`${base}/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({ messages: [{ role: "user", content: "hi" }], tools, tool_choice: "auto" }),
    });
    expect(auto.status).toBe(422);
    expect(await auto.text()).toContain("tool-parser");

    const created = await command(["models", "create", "demo/speller", "--home", home]);
    expect(created.code).toBe(0);
    const listed = await command(["models", "--home", home]);
    expect(listed.out).toContain("wandb-artifact:///local/demo/speller\tlocal/demo/speller:step0");
    const run = await command(["runs", "show", "demo/speller", "--home", home]);
    expect(run).toMatchObject({ code: 0, err: "" });
    expect(run.out).toContain("local/demo/speller, trained from anneal/tiny, at step 0");
    expect(run.out).toContain("No trajectories were logged yet.");
    const unknown = await command(["runs", "show", "other", "--home", home]);
    expect(unknown.code).toBe(1);
    expect(unknown.err).toContain('there is no model "other" here; there is local/demo/speller');
    const talk = ["chat", "--max-tokens", "2", "hi", "--use"];
    const [beside, step, unserved] = await Promise.all([
      command([...talk, "demo/speller", "--home", home]),
      command([...talk, "local/demo/speller:step0", "--url", base.replace("/v1", ""), "--api-key", key]),
      command([...talk, "demo/nobody", "--home", home]),
    ]);
    expect([beside, step]).toMatchObject([
      { code: 0, err: "" },
      { code: 0, err: "" },
    ]);
    expect(unserved.err).toContain('there is no model "demo/nobody" here; there is anneal/tiny, local/demo/speller');
    const nothing = join(home, "nothing");
    const [engineOptions, elsewhere, ofEnvironment] = await Promise.all([
      command(["models", "create", "demo/q", "--model", nothing, "--adapter-rank", "64", "--home", home]),
      command(["chat", "--quantize", "q4", "hi", "--url", base.replace("/v1", ""), "--api-key", key]),
      finish(start(["models", "--home", home], { ANNEAL_MODEL: nothing })),
    ]);
    expect([engineOptions, elsewhere].map(({ code, err }) => [code, err.split("\n")])).toEqual([
      [
        2,
        [expect.stringContaining("--model, --adapter-rank: decided by"), expect.stringContaining("leave them out"), ""],
      ],
      [2, [expect.stringContaining("--quantize: decided by"), expect.stringContaining("leave them out"), ""]],
    ]);
    expect(ofEnvironment).toMatchObject({ code: 0, err: "" });
    const made = await command(["keys", "create", "--entity", "team", "--home", home]);
    const models = await fetch(`${base}/models`, { headers: { authorization: `Bearer ${made.out.trim()}` } });
    expect(((await models.json()) as { data: unknown[] }).data).toHaveLength(1);
    const named = await command(["keys", "create", "--name", "guest", "--home", home]);
    const id = named.err.split(" ")[1]!;
    const [byName, byId, asName] = await Promise.all([
      command(["keys", "revoke", "guest", "--home", home]),
      command(["keys", "revoke", id, "--home", home]),
      command(["models", "create", id, "--home", home]),
    ]);
    expect(byName).toMatchObject({ code: 1, err: expect.stringContaining(`that is the name of ${id}`) });
    expect(byId).toMatchObject({ code: 0, err: "" });
    expect(asName).toMatchObject({ code: 2, err: expect.stringContaining("that is an id") });
    const second = await command(["serve", "--port", "0", "--home", home]);
    expect(second.code).toBe(1);
    expect(second.err).toContain(base.replace("/v1", ""));
    const taken = await command(["serve", "--port", new URL(base).port, "--home", join(home, "other")]);
    expect(taken).toMatchObject({ code: 1, err: expect.stringMatching(/the port is taken\n {2}name another port/) });

    server.kill("SIGINT");
    expect((await closed).code).toBe(0);
    const offline = await command(["models", "--home", home]);
    expect(offline.out).toBe(listed.out);
    const deleted = await command(["models", "delete", "demo/speller", "--home", home]);
    expect(deleted).toMatchObject({ code: 0, out: "deleted, with its checkpoints (1)\n" });
  });
});
