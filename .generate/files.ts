// The files that are made of the wire schemas and of the declarations, and their texts.

import { execFileSync } from "node:child_process";
import { createRequire } from "node:module";
import { join } from "node:path";
import type { z } from "zod";
import * as artifacts from "../src/schemas/artifacts.js";
import * as chat from "../src/schemas/chat.js";
import * as completions from "../src/schemas/completions.js";
import * as embeddings from "../src/schemas/embeddings.js";
import * as generations from "../src/schemas/generations.js";
import * as health from "../src/schemas/health.js";
import * as jobs from "../src/schemas/jobs.js";
import * as loraAdapters from "../src/schemas/loraAdapters.js";
import * as models from "../src/schemas/models.js";
import * as pages from "../src/schemas/pages.js";
import * as publish from "../src/schemas/publish.js";
import * as responseRequests from "../src/schemas/responseRequests.js";
import * as responses from "../src/schemas/responses.js";
import * as textCompletions from "../src/schemas/textCompletions.js";
import * as tokens from "../src/schemas/tokens.js";
import * as trajectories from "../src/schemas/trajectories.js";
import { httpDocument } from "./http.js";
import { libraryReference } from "./library.js";
import { type Json, reference } from "./reference.js";
import { declaration, namedSchemas } from "./types.js";

type Schemas = readonly z.core.$ZodType[];

const schemasOf = (module: object): Schemas =>
  Object.entries(module)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([, value]) => value)
    .filter((value): value is z.core.$ZodType => typeof value === "object" && value !== null && "_zod" in value);

/** Files of src/types, and the schemas they are made of; each may use what those before it have. */
const FILES: readonly [file: string, from: string, schemas: Schemas][] = [
  ["chat", "chat.ts and completions.ts", [...schemasOf(chat), ...schemasOf(completions)]],
  ["responses", "responseRequests.ts and responses.ts", [...schemasOf(responseRequests), ...schemasOf(responses)]],
  ["textCompletions", "textCompletions.ts", schemasOf(textCompletions)],
  ["generations", "generations.ts", schemasOf(generations)],
  ["loraAdapters", "loraAdapters.ts", schemasOf(loraAdapters)],
  ["embeddings", "embeddings.ts", schemasOf(embeddings)],
  ["tokens", "tokens.ts", schemasOf(tokens)],
  ["artifacts", "artifacts.ts", schemasOf(artifacts)],
  ["health", "health.ts", schemasOf(health)],
  ["models", "models.ts", schemasOf(models)],
  ["publish", "publish.ts", schemasOf(publish)],
  ["trajectories", "trajectories.ts", schemasOf(trajectories)],
  ["training", "jobs.ts", schemasOf(jobs).filter((schema) => schema !== jobs.jobQuery)],
  ["queries", "pages.ts and jobs.ts", [...schemasOf(pages), jobs.jobQuery]],
];

/** Files whose requests may be written with `as const`; in the others lists go to and fro. */
const READONLY = new Set(["chat", "responses", "textCompletions", "generations", "embeddings", "tokens"]);

const root = join(import.meta.dirname, "..");

const biome = createRequire(import.meta.url).resolve("@biomejs/biome/bin/biome");

function formatted(path: string, text: string): string {
  const args = [biome, "format", `--stdin-file-path=${path}`];
  return execFileSync(process.execPath, args, { cwd: root, input: text, encoding: "utf8" });
}

/** Paths and texts, in order: the reference of types is read out of the types, so these have to be written when it is asked for. */
export function* generatedFiles(): Generator<[path: string, text: string]> {
  const fileOf = new Map<string, string>();
  for (const [file, from, schemas] of FILES) {
    const declarations = namedSchemas(schemas, new Set(fileOf.keys()), READONLY.has(file)).map((one) => {
      fileOf.set(one.name, file);
      return declaration(one);
    });
    const body = declarations.join("\n\n");
    const head = [
      `// Made of src/schemas/${from} by \`npm run generate\`: change those.`,
      ...imports(body, file, fileOf),
    ];
    const path = join(root, "src", "types", `${file}.ts`);
    yield [path, formatted(path, `${head.join("\n\n")}\n\n${body}\n`)];
  }
  yield [join(root, "src", "schemas", "README.md"), reference(httpDocument() as unknown as Json)];
  yield [join(root, "src", "types", "README.md"), libraryReference(root)];
}

/** Of the names of other files in a text. */
function imports(body: string, file: string, fileOf: ReadonlyMap<string, string>): string[] {
  const names = new Map<string, Set<string>>();
  for (const [name] of body.replace(/\/\*\*[\s\S]*?\*\//g, "").matchAll(/\b[A-Z]\w+\b/g)) {
    const from = fileOf.get(name);
    if (from !== undefined && from !== file) names.set(from, (names.get(from) ?? new Set()).add(name));
  }
  const lines = [...names]
    .sort()
    .map(([from, used]) => `import type { ${[...used].sort().join(", ")} } from "./${from}.js";`);
  return lines.length === 0 ? [] : [lines.join("\n")];
}
