import type { PullProgress } from "../types/hub.js";
import { defineCommand } from "./command.js";
import { repeated } from "./flags.js";
import { json } from "./listing.js";
import { MEGABYTES, ProgressBar } from "./progress.js";

/** Where there is no terminal, a line is written as often. */
const LINE_EVERY_MS = 10_000;

export const pull = defineCommand({
  name: "pull",
  arguments: ["OWNER/NAME[@REVISION]"],
  summary: "download a model of the Hugging Face hub",
  details: `Downloads what a model needs (weights in safetensors, configuration, tokenizer, chat template) into the cache that the hub's other
programs share, and prints its folder; --model OWNER/NAME then serves it without a network. An interrupted download is gone on
with, every file is checked. The environment counts as with those programs: HF_TOKEN, HF_ENDPOINT, HF_HOME, HF_HUB_CACHE,
HF_HUB_OFFLINE.`,
  flags: {
    include: repeated("PATTERN", 'further files, such as "*.md"; repeatable'),
    json,
  },
  async run(values, [name]) {
    const { pullModel } = await import("../index.js");
    using shown = showing(name!);
    const pulled = await pullModel(name!, { include: values.include ?? [], onProgress: shown.show });
    shown.end();
    const bytes = pulled.files.filter((file) => file.downloaded).reduce((sum, file) => sum + file.bytes, 0);
    if (bytes > 0) process.stderr.write(`${pulled.name}: ${megabytes(bytes)} downloaded and checked\n`);
    console.log(values.json ? JSON.stringify(pulled, null, 2) : pulled.path);
    return 0;
  },
});

const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`;

/** A bar on a terminal, lines elsewhere. */
function showing(name: string) {
  const bar = new ProgressBar(`pulling ${name}`, MEGABYTES);
  // What was here before says nothing about the rate.
  let resumed = 0;
  let file = "";
  let lastLine = performance.now();
  const line = ({ bytes, size, ...progress }: PullProgress) => {
    const now = performance.now();
    if (bytes < size && now - lastLine < LINE_EVERY_MS) return;
    lastLine = now;
    const share = `${Math.floor((100 * bytes) / Math.max(1, size))} % of ${megabytes(size)}`;
    process.stderr.write(`${progress.file}: ${bytes < size ? share : megabytes(size)}\n`);
  };
  const show = (progress: PullProgress) => {
    if (progress.file !== file) {
      file = progress.file;
      resumed += progress.resumed;
    }
    if (process.stderr.isTTY) bar.show(progress.done - resumed, progress.total - resumed);
    else line(progress);
  };
  return { show, end: () => bar.end(), [Symbol.dispose]: () => bar.end() };
}
