import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, describe, expect, it } from "vitest";
import { ValidationError } from "../errors.js";
import { type DataSources, resolveAdapterFolder, resolveTrainingData } from "./dataLocation.js";
import type { FileRights } from "./host.js";
import { readExamples, type SftExample, snapshotData, TrainingDataError } from "./sftData.js";

const root = mkdtempSync(join(tmpdir(), "sft-data-"));
const outside = mkdtempSync(join(tmpdir(), "sft-outside-"));
afterAll(() => {
  for (const folder of [root, outside]) rmSync(folder, { recursive: true, force: true });
});

function write(name: string, content: string): string {
  const file = join(root, name);
  mkdirSync(join(file, ".."), { recursive: true });
  writeFileSync(file, content);
  return file;
}

const under = (...roots: string[]): FileRights => ({
  reader: "owner",
  roots,
  followLinks: true,
  isHidden: () => false,
});

const sources: DataSources = {
  rights: under(root),
  allowedHosts: ["data.example"],
  artifactFolder: ({ project, version }) =>
    project === "known" ? join(root, `artifact-v${version ?? "latest"}`) : null,
};

const line = (text: string) =>
  JSON.stringify({
    messages: [
      { role: "user", content: "hi" },
      { role: "assistant", content: text },
    ],
  });

async function read(file: string): Promise<SftExample[]> {
  const examples: SftExample[] = [];
  for await (const example of readExamples(file, "data")) examples.push(example);
  return examples;
}

describe("training_data_url", () => {
  it("names a file, a folder with either file name, or an artifact", () => {
    const file = write("a/train.jsonl", line("x"));
    const both = write("b/trajectories.jsonl", line("x"));
    write("b/train.jsonl", line("y"));
    const artifact = write("artifact-v3/trajectories.jsonl", line("x"));
    expect(resolveTrainingData(file, sources)).toBe(file);
    expect(resolveTrainingData(pathToFileURL(file).href, sources)).toBe(file);
    expect(resolveTrainingData(join(root, "a"), sources)).toBe(file);
    expect(resolveTrainingData(join(root, "b"), sources)).toBe(both);
    expect(resolveTrainingData("wandb-artifact:///me/known/set:v3", sources)).toBe(artifact);
    expect(resolveTrainingData("wandb-artifact://me/known/set:v3", sources)).toBe(artifact);
    expect(resolveTrainingData("https://data.example/x.jsonl", sources)).toBe("https://data.example/x.jsonl");
  });

  it.each([
    "relative.jsonl",
    "file://elsewhere/share",
    "https://user:secret@data.example/x",
    "https://other.example/x",
    "http://",
    "wandb-artifact:///me/unknown/set:v3",
    "wandb-artifact:///me/known",
    "ftp://data.example/x",
    join(outside, "train.jsonl"),
    join(root, "..", "x"),
    join(root, "missing.jsonl"),
    join(root, "link"),
    join(root, "with-link"),
    join(root, "empty"),
    join(root, "pipe"),
    `${root}\0`,
  ])("is refused with its name: %s", (url) => {
    mkdirSync(join(root, "empty"), { recursive: true });
    if (!existsSync(join(root, "pipe"))) execFileSync("mkfifo", [join(root, "pipe")]);
    writeFileSync(join(outside, "train.jsonl"), line("secret"));
    mkdirSync(join(root, "with-link"), { recursive: true });
    const inFolder = join(root, "with-link", "train.jsonl");
    if (!existsSync(inFolder)) symlinkSync(join(outside, "train.jsonl"), inFolder);
    if (!existsSync(join(root, "link"))) symlinkSync(join(outside, "train.jsonl"), join(root, "link"));
    expect(() => resolveTrainingData(url, sources)).toThrow(ValidationError);
    try {
      resolveTrainingData(url, sources);
    } catch (error) {
      expect((error as ValidationError).issues[0]!.loc).toEqual(["body", "training_data_url"]);
    }
  });

  it("tells nothing about what lies outside its roots", () => {
    const refusal = (url: string) => {
      try {
        resolveTrainingData(url, sources);
      } catch (error) {
        return (error as Error).message;
      }
      return "";
    };
    expect(refusal("/etc/passwd")).toBe(refusal("/etc/no-such-file"));
  });
});

it("an adapter's files may not be links that lead out", () => {
  const folder = join(root, "adapter");
  mkdirSync(folder);
  writeFileSync(join(outside, "secret"), "{}");
  const refuse = (message: string) => ValidationError.at("path", message);
  expect(resolveAdapterFolder(folder, under(root), refuse)).toBe(folder);
  symlinkSync(join(outside, "secret"), join(folder, "adapter_config.json"));
  expect(() => resolveAdapterFolder(folder, under(root), refuse)).toThrow(
    /path: adapter_config.json is not there, or outside/,
  );
  expect(resolveAdapterFolder(folder, under(root, outside), refuse)).toBe(folder);
  // To others than the owner links are closed wherever they lead, and so is what is hidden.
  const others: FileRights = { ...under(root, outside), reader: "other", followLinks: false };
  expect(() => resolveAdapterFolder(folder, others, refuse)).toThrow(/adapter_config.json is not there, or outside/);
  const hidden = { ...others, followLinks: true, isHidden: (path: string) => path.endsWith("secret") };
  expect(() => resolveAdapterFolder(folder, hidden, refuse)).toThrow(/adapter_config.json is not there, or outside/);
  expect(() => resolveAdapterFolder(write("adapter.bin", ""), under(root), refuse)).toThrow("path: is not a folder");
});

describe("supervised data", () => {
  it("may hold any character within a line, in pieces of any size", async () => {
    const text = `a\u2028b\u2029${"é\u{1f600}".repeat(20_000)}`;
    const examples = await read(write("separators.jsonl", `${line(text)}\n${line("b")}`));
    expect(examples.map(({ messages }) => messages[1]!.content)).toEqual([text, "b"]);
  });

  it("names the line that is not UTF-8", async () => {
    const file = join(root, "latin1.jsonl");
    writeFileSync(file, `${line("a")}\n${line("caf\u00e9")}\n`, "latin1");
    await expect(read(file)).rejects.toThrow("data, line 2: is not UTF-8");
  });

  it("names a line that is too long to be held", async () => {
    const file = write("endless.jsonl", `${line("a")}\n${"x".repeat(65 * 2 ** 20)}`);
    await expect(read(file)).rejects.toThrow("data, line 2: is longer than 67108864 bytes");
    rmSync(file);
  });

  it("is read line by line, blank lines and a byte order mark aside", async () => {
    const examples = await read(write("ok.jsonl", `\uFEFF${line("a")}\r\n\n${line("b")}`));
    expect(examples.map(({ line: at, messages }) => [at, messages[1]!.content])).toEqual([
      [1, "a"],
      [3, "b"],
    ]);
  });

  it.each<[string, content: string, lines: number[]]>([
    ["compact", `[${line("a")},${line('b]}\\n"')}]`, [1, 1]],
    ["one to a line", `\uFEFF[\n  ${line("a")},\n\n  ${line('b]}\\n"')}\n]\n`, [2, 4]],
    ["indented", JSON.stringify([JSON.parse(line("a")), JSON.parse(line('b]}\\n"'))], null, 2), [2, 14]],
    ["without an element", " [ \n ] ", []],
  ])("may be one JSON array, %s", async (_, content, lines) => {
    const file = write("array.json", content);
    if (lines.length === 0) {
      await expect(read(file)).rejects.toThrow("data: holds no conversation");
      return;
    }
    const examples = await read(file);
    expect(examples.map((example) => example.line)).toEqual(lines);
    expect(examples.map(({ messages }) => messages[1]!.content)).toEqual(["a", 'b]}\\n"']);
  });

  it.each([
    ["[", "data, line 1: the file ends before the array does"],
    [`[\n${line("a")}`, "data, line 2: the file ends before the array does"],
    [`[\n${line("a")},\n]`, "data, line 3: no valid JSON"],
    [`[${line("a")}\n,,]`, "data, line 2: no valid JSON"],
    [`[${line("a")}]\n${line("b")}`, "data, line 2: something follows the end of the array"],
    ["[\n1]", 'data, line 2: "messages" must be a list'],
    [`[\n"${"x".repeat(65 * 2 ** 20)}"]`, "data, line 2: is longer than 67108864 bytes"],
  ])("names the place of an array that is none: %.40s", async (content, message) => {
    await expect(read(write("broken.json", content))).rejects.toThrow(message);
  });

  it.each([
    ["prompt,completion\nhi,ho", /no valid JSON .* has one on each line, \{"messages":.* or is a JSON array/],
    [JSON.stringify(JSON.parse(line("a")), null, 2), /no valid JSON .* has one on each line/],
    ['{"conversations":[{"from":"human"}]}', /"messages" is missing \(there is "conversations"\)/],
    ['{"prompt":"a","completion":"b"}', /"messages" is missing \(there is "prompt" and "completion"\)/],
    ['{"secret":1}', /"messages" is missing; a conversation is/],
    ["\n \n", /holds no conversation/],
  ])("says what it should be instead of %s", async (content, message) => {
    await expect(read(write("other.txt", content))).rejects.toThrow(message);
  });

  it.each([
    ["{", "no valid JSON"],
    ["[]", '"messages" must be a list'],
    ['{"messages":[]}', '"messages" must be a list'],
    ['{"messages":[{"role":"user","content":"x"}]}', "the last message must be the assistant's"],
    ['{"messages":[{"role":"robot","content":"x"}]}', '"messages.0.role"'],
    ['{"messages":[{"role":"assistant","content":7}]}', '"messages.0.content"'],
    ['{"messages":[{"role":"user"},{"role":"assistant","content":"x"}]}', '"messages.0.content" is missing'],
    ['{"messages":[{"role":"assistant","content":[{"type":"image_url"}]}]}', '"messages.0.content.0.type" "image_url"'],
    ['{"messages":[{"role":"assistant","content":"x","weight":0.5}]}', '"messages.0.weight" must be 0'],
    ['{"messages":[{"role":"assistant","content":"x","weight":true}]}', '"messages.0.weight" must be 0'],
    ['{"messages":[{"role":"assistant","tool_calls":[null]}]}', '"messages.0.tool_calls.0"'],
    ['{"messages":[{"role":"assistant","tool_calls":[{"function":{}}]}]}', '"messages.0.tool_calls.0"'],
    ['{"messages":[{"role":"assistant","content":"x"}],"tools":{}}', '"tools"'],
  ])("names the line that is none: %s", async (bad, message) => {
    const file = write("bad.jsonl", `${line("a")}\n${bad}\n`);
    const error = await read(file).then(
      () => null,
      (cause: unknown) => cause,
    );
    expect(error).toBeInstanceOf(TrainingDataError);
    expect((error as Error).message).toContain("data, line 2:");
    expect((error as Error).message).toContain(message);
  });

  it("is not read through a link that has taken its place", async () => {
    const file = write("swapped.jsonl", line("mine"));
    const resolved = resolveTrainingData(file, sources);
    rmSync(file);
    writeFileSync(join(outside, "train.jsonl"), line("secret"));
    symlinkSync(join(outside, "train.jsonl"), file);
    const copy = join(root, "swapped-copy.jsonl");
    await expect(snapshotData(resolved, "data", copy)).rejects.toThrow(/no longer the file/);
    expect(existsSync(copy)).toBe(false);
  });

  it("is copied whole or not at all", async () => {
    const copy = join(root, "copy.jsonl");
    await expect(snapshotData(join(root, "gone.jsonl"), "data", copy)).rejects.toThrow(/^data: cannot be read/);
    expect(existsSync(copy)).toBe(false);
    await expect(snapshotData(write("src.jsonl", line("a")), "data", copy, AbortSignal.abort("stop"))).rejects.toBe(
      "stop",
    );
    expect(existsSync(copy)).toBe(false);
    await snapshotData(write("src.jsonl", line("a")), "data", copy);
    expect(readFileSync(copy, "utf8")).toBe(line("a"));
  });
});
