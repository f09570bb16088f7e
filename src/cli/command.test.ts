import { describe, expect, it, vi } from "vitest";
import { commandHelp, defineCommand, findCommand, isGroup, runCommand } from "./command.js";
import { commands } from "./commands.js";
import { integer, toggle, UsageError } from "./flags.js";
import { nearest } from "./nearest.js";

const problem = (action: () => unknown): UsageError => {
  try {
    action();
  } catch (error) {
    if (error instanceof UsageError) return error;
  }
  throw new Error("no usage error");
};

describe("the table of commands", () => {
  it("finds a command by its words, wherever options stand, and a group's first when no second word is given", () => {
    const found = (...words: string[]) => {
      const { found, rest } = findCommand(commands, words);
      return [found.name, ...rest];
    };
    expect(found("serve", "--port", "1")).toEqual(["serve", "--port", "1"]);
    expect(found("keys", "--home", "list", "revoke", "x")).toEqual(["keys revoke", "--home", "list", "x"]);
    expect(found("models", "--home=create")).toEqual(["models list", "--home=create"]);
    expect(found("models", "--help")).toEqual(["models"]);
  });

  it("suggests what was meant, and lists what there is", () => {
    const first = problem(() => findCommand(commands, ["sevre"]));
    expect(first.message).toBe('there is no command "sevre"; did you mean serve?');
    expect(first.hint).toMatch(/^commands: serve chat .*keys/);
    const second = problem(() => findCommand(commands, ["models", "checkpoint"]));
    expect(second.message).toBe('there is no command "models checkpoint"; did you mean models checkpoints?');
    expect(problem(() => findCommand(commands, ["constructor"])).message).toBe('there is no command "constructor"');
  });

  it("explains every option of every command", () => {
    const all = commands.flatMap((entry) => (isGroup(entry) ? entry.commands : [entry]));
    expect(new Set(all.map(({ name }) => name)).size).toBe(all.length);
    for (const command of all) {
      const help = commandHelp(command);
      for (const [name, { help: said }] of Object.entries(command.flags)) {
        expect(help).toContain(` --${name} `);
        expect(said, `${command.name} --${name}`).not.toBe("");
      }
    }
  });
});

describe("a command", () => {
  const run = vi.fn(async () => 3);
  const command = defineCommand({
    name: "fly",
    arguments: ["WHERE", "[HOW]"],
    summary: "move through the air",
    flags: { height: integer("METRES", "above ground"), far: toggle("go far") },
    run,
  });

  it("gets values and arguments", async () => {
    expect(await runCommand(command, ["--height=5", "north", "--far"])).toBe(3);
    expect(run).toHaveBeenCalledWith({ height: 5, far: true }, ["north"]);
  });

  it.each([
    [[], "fly takes WHERE and [HOW]"],
    [["a", "b", "c"], "fly takes WHERE and [HOW]"],
    [["a", "--heigth", "5"], "there is no option --heigth; did you mean --height?"],
    [["a", "-x"], "there is no option -x"],
    [["a", "--height"], "--height takes a value: METRES"],
    [["a", "--height", "--far"], "--height takes a value: METRES"],
    [["a", "--far=2"], "--far takes no value"],
    [["a", "--height=low"], '--height takes a whole number from 1, not "low"'],
  ])("refuses %j", async (args, message) => {
    await expect(runCommand(command, args)).rejects.toMatchObject({ constructor: UsageError, message });
  });

  it("lists its options beside one that it does not have", async () => {
    await expect(runCommand(command, ["--speed"])).rejects.toMatchObject({ hint: "options: --height --far --help" });
  });
});

it.each([
  ["tempersture", "temperature"],
  ["prot", "port"],
  ["PORT", "port"],
  ["max-tok", "max-tokens"],
  ["zebra", undefined],
  ["x", undefined],
])("nearest to %s is %s", (given, meant) => {
  expect(nearest(given, ["port", "temperature", "max-tokens", "home"])).toBe(meant);
});
