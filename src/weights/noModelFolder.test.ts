import { resolve } from "node:path";
import { expect, it } from "vitest";
import { noModelFolder } from "./noModelFolder.js";

it.each<[string, isThere: boolean, message: RegExp]>([
  ["/models/Qwen3-0.6B-Q8_0.GGUF", true, /is no regular file/],
  ["/models/model.safetensors", true, /is a file .*name the folder that holds it/],
  ["Qwen/Qwen3-0.6B", false, /no such folder, and no such model in .*hub .*download it: anneal pull Qwen\/Qwen3-0.6B$/],
  ["Qwen/Qwen3-0.6B-Q8_0.gguf", false, /there is no such file .*hf download OWNER\/NAME FILE\.gguf/],
  ["https://huggingface.co/Qwen/Qwen3-0.6B", false, /no such model in .*download it: anneal pull Qwen\/Qwen3-0.6B$/],
  ["hf.co/Qwen/Qwen3-0.6B/tree/v1", false, /download it: anneal pull Qwen\/Qwen3-0.6B@v1$/],
  ["models/a/b", false, /no such folder name a GGUF file, or a Hugging Face folder/],
  ["../Qwen3-0.6B", false, /no such folder name a GGUF file, or a Hugging Face folder/],
  ["Qwen3-0.6B", false, /no such folder name a GGUF file, or a Hugging Face folder/],
])("%s, there: %s", (path, isThere, expected) => {
  const { message, hint, file } = noModelFolder(resolve(path), isThere);
  expect(`${message} ${hint}`).toMatch(expected);
  expect(file).toBe(resolve(path));
});
