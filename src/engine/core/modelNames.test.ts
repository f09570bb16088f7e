import { expect, it } from "vitest";
import { parseModelName, servedName } from "./modelNames.js";

it.each([
  ["wandb-artifact:///e/p/n", { kind: "full", entity: "e", project: "p", name: "n", step: null }],
  ["wandb-artifact:///e/p/n:step12", { kind: "full", entity: "e", project: "p", name: "n", step: 12 }],
  ["wandb-artifact://e/p/n:step0", { kind: "full", entity: "e", project: "p", name: "n", step: 0 }],
  ["e/p/n:step3", { kind: "full", entity: "e", project: "p", name: "n", step: 3 }],
  ["e/p/n:latest", { kind: "full", entity: "e", project: "p", name: "n", step: null }],
  ["e/p/n", { kind: "full", entity: "e", project: "p", name: "n", step: null }],
  ["p/n", { kind: "project", project: "p", name: "n", step: null }],
  ["p/n:step2", { kind: "project", project: "p", name: "n", step: 2 }],
  ["n@4", { kind: "bare", name: "n", step: 4 }],
  ["n", { kind: "bare", name: "n", step: null }],
])("reads %s", (text, expected) => {
  expect(parseModelName(text)).toEqual(expected);
});

it.each([
  "",
  "wandb-artifact:///p/n",
  "p/n:v3",
  "p/..",
  "a/b/c/d",
  "wandb-artifact:///n",
  "e/p/n:step",
  "e/p/n:step01",
  "e/p/n:step-1",
  "e/p/n:v3",
  "n@",
  "n@x",
  "n@1.5",
  "e/../n",
  "e//n",
  "n m",
  "e/p/n@3",
  "wandb-artifact:////e/p/n",
])("refuses %j", (text) => {
  expect(parseModelName(text)).toBeNull();
});

it("writes names that it reads back", () => {
  const model = { entity: "e", project: "p", name: "n" };
  expect(parseModelName(servedName(model))).toMatchObject({ ...model, step: null });
  expect(parseModelName(servedName(model, 7))).toMatchObject({ ...model, step: 7 });
});
