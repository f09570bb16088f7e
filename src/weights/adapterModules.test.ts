import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { PLAIN_MODULES } from "../adapterModules.js";
import { readAdapterFolder } from "./adapterFolder.js";
import { targetsOf } from "./adapterModules.js";
import { JsonFields } from "./jsonFields.js";
import { modelSpec } from "./modelSpec.js";
import { openWeightFolder } from "./weightFolder.js";

const reference = (name: string) => fileURLToPath(new URL(`../../test/reference/models/${name}`, import.meta.url));
const config = async (name: string) => (await openWeightFolder(reference(name))).config;

it("asks of every model for modules that it has", async () => {
  const plain = await config("gemma3");
  expect(targetsOf(plain, PLAIN_MODULES)).toEqual([...PLAIN_MODULES]);
  expect(targetsOf(plain, ["v_proj", "q_proj"])).toEqual(["v_proj", "q_proj"]);
  const fused = await config("phi3");
  const all = ["qkv_proj", "o_proj", "gate_up_proj", "down_proj"];
  expect(targetsOf(fused, PLAIN_MODULES)).toEqual(all);
  expect(targetsOf(fused, ["q_proj", "v_proj", "up_proj"])).toEqual(["qkv_proj", "gate_up_proj"]);
  expect(targetsOf(fused, ["down_proj", "qkv_proj"])).toEqual(["down_proj", "qkv_proj"]);
  expect((await readAdapterFolder(`${reference("phi3")}/adapter`)).spec.targets.toSorted()).toEqual(all.toSorted());
});

it("adapts of LFM2 what it has by names of its own", async () => {
  const lfm2 = await config("lfm2");
  const all = ["in_proj", "out_proj", "w1", "w3", "w2", "q_proj", "k_proj", "v_proj"];
  expect(targetsOf(lfm2, PLAIN_MODULES)).toEqual(all);
  expect(targetsOf(lfm2, ["o_proj", "q_proj", "up_proj"])).toEqual(["out_proj", "q_proj", "w3"]);
  expect(targetsOf(lfm2, ["w2", "down_proj"])).toEqual(["w2"]);
  expect((await readAdapterFolder(`${reference("lfm2")}/adapter`)).spec.targets.toSorted()).toEqual(all.toSorted());
});

it("does not ask for values that all layers make of keys", () => {
  const spec = (types: string[]) =>
    modelSpec(
      new JsonFields("config.json", {
        model_type: "gemma4_text",
        num_hidden_layers: 2,
        layer_types: types,
        attention_k_eq_v: true,
      }),
    );
  const without = PLAIN_MODULES.filter((name) => name !== "v_proj");
  expect(targetsOf(spec(["full_attention", "full_attention"]), PLAIN_MODULES)).toEqual(without);
  expect(targetsOf(spec(["sliding_attention", "full_attention"]), PLAIN_MODULES)).toEqual([...PLAIN_MODULES]);
});

it("adapts of a model with experts attention, and the layers without them", () => {
  const spec = (more: object) =>
    modelSpec(new JsonFields("config.json", { model_type: "qwen3_moe", num_hidden_layers: 2, ...more }));
  const attention = ["q_proj", "k_proj", "v_proj", "o_proj"];
  expect(targetsOf(spec({}), PLAIN_MODULES)).toEqual(attention);
  expect(targetsOf(spec({ mlp_only_layers: [1] }), PLAIN_MODULES)).toEqual([...PLAIN_MODULES]);
  expect(targetsOf(spec({}), ["v_proj"])).toEqual(["v_proj"]);
  const recurrent = ["in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a", "out_proj"];
  const shared = spec({ model_type: "qwen3_5_moe_text", num_hidden_layers: 4 });
  expect(targetsOf(shared, PLAIN_MODULES).toSorted()).toEqual([...attention, ...recurrent].toSorted());
});
