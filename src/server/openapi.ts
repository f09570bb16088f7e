// The OpenAPI document, from the schemas that check requests and describe answers. They carry their documentation themselves
// (schemas/fields.ts) and zod writes them as JSON Schema, so @hono/zod-openapi would only add three packages and a second
// registry, and could not see through this engine's bounded lists.

import type * as z from "zod";
import * as errors from "../schemas/errors.js";
import { jsonSchemaOf } from "../schemas/fields.js";
import { type ErrorStyle, styleOf } from "./errorBodies.js";
import { type OpenRoute, pathTemplate, type Route } from "./route.js";

type Json = Record<string, unknown>;
type Io = "input" | "output";

/** A copy with every reference replaced. */
function withReferences(value: unknown, replaced: (reference: string) => string): unknown {
  if (Array.isArray(value)) return value.map((item) => withReferences(item, replaced));
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).map(([key, inner]) =>
    key === "$ref" ? [key, replaced(inner as string)] : [key, withReferences(inner, replaced)],
  );
  return Object.fromEntries(entries);
}

/** Named schemas. One that is sent in another form than it is answered has two components, the former with "Input" at its end. */
class Components {
  readonly #named: Record<Io, Map<string, unknown>> = { input: new Map(), output: new Map() };

  /** JSON Schema whose references are to be settled by `settle`. */
  schema(schema: z.ZodType, io: Io): Json {
    const { $defs, ...own } = jsonSchemaOf(schema, io);
    const marked = (value: unknown) => withReferences(value, (to) => to.replace("#/$defs/", `#/${io}/`));
    for (const [name, definition] of Object.entries(($defs ?? {}) as Json)) {
      const { id: _, ...rest } = definition as Json;
      this.#named[io].set(name, marked(rest));
    }
    return marked(own) as Json;
  }

  /** The component of a name in a form. */
  #component(name: string, io: Io, twofold: ReadonlySet<string>): string {
    return io === "input" && twofold.has(name) ? `${name}Input` : name;
  }

  /** Names that mean something else when sent than when answered, by themselves or by what they refer to. */
  #twofold(): Set<string> {
    const { input, output } = this.#named;
    const found = new Set<string>();
    for (let size = -1; size !== found.size; ) {
      size = found.size;
      for (const [name, sent] of input) {
        const text = (value: unknown, io: Io) =>
          JSON.stringify(withReferences(value, (to) => this.#component(to.slice(to.lastIndexOf("/") + 1), io, found)));
        if (output.has(name) && text(sent, "input") !== text(output.get(name), "output")) found.add(name);
      }
    }
    return found;
  }

  settle(document: Json): Json {
    const twofold = this.#twofold();
    const schemas: Json = {};
    for (const io of ["output", "input"] as const) {
      for (const [name, definition] of this.#named[io]) schemas[this.#component(name, io, twofold)] ??= definition;
    }
    const sorted = Object.fromEntries(Object.entries(schemas).sort(([a], [b]) => (a < b ? -1 : 1)));
    const components = { ...(document.components as Json), schemas: sorted };
    return withReferences({ ...document, components }, (to) => {
      const [, io, name] = to.split("/") as [string, Io, string];
      return `#/components/schemas/${this.#component(name, io, twofold)}`;
    }) as Json;
  }
}

const json = (schema: Json) => ({ "application/json": { schema } });

/** What the parts of paths are. */
const PATH_PARAMETERS: Readonly<Record<string, string>> = {
  model: "A model's name, as requests use it.",
  base_model: "A base model's id.",
  model_id: "A model's id.",
  response_id: "A response's id.",
  training_job_id: "A training job's id.",
  session_id: "A training session's id.",
  key_id: "An API key's id.",
  entity: "Owner of the artifact.",
  project: "Project of the artifact.",
  name: "Name of the artifact.",
  file: "Name of the file.",
};

function parameters(route: Route, components: Components): Json[] {
  const path = [...route.path.matchAll(/:(\w+)/g)].map(([, name]) => ({
    name,
    in: "path",
    required: true,
    description: PATH_PARAMETERS[name!],
    schema: { type: "string" },
  }));
  const query = Object.entries((route.query?.shape ?? {}) as z.ZodRawShape).map(([name, field]) => {
    const { description, ...schema } = components.schema(field as z.ZodType, "input");
    return { name, in: "query", required: false, description, schema };
  });
  return [...path, ...query];
}

/** What is answered when all goes well. */
function success(
  route: Pick<Route, "response" | "events" | "eventsAreNamed" | "mediaType">,
  components: Components,
): Json {
  const { response, events, eventsAreNamed, mediaType } = route;
  const content = {
    ...(response ? json(components.schema(response, "output")) : {}),
    ...(events ? { "text/event-stream": { schema: components.schema(events, "output") } } : {}),
    ...(mediaType ? { [mediaType]: { schema: { type: "string" } } } : {}),
  };
  const end = eventsAreNamed ? ", named by their `type`" : ", and a last one `[DONE]`";
  const streamed = events ? `; with \`stream: true\` events, whose data are such objects${end}` : "";
  return { description: `Success${streamed}`, ...(Object.keys(content).length > 0 ? { content } : {}) };
}

/** How they are worded; `refused`: requests that are not as they should be. */
const FAILURES: Readonly<Record<ErrorStyle, { body: z.ZodType; refused: z.ZodType }>> = {
  detail: { body: errors.detailBody, refused: errors.validationBody },
  error: { body: errors.errorBody, refused: errors.validationBody },
  message: { body: errors.messageErrorBody, refused: errors.messageErrorBody },
};

/** Failures that every route may answer. */
function failures(path: string, components: Components): Json {
  const { body, refused } = FAILURES[styleOf(path)];
  const answer = (description: string, schema: z.ZodType) => ({
    description,
    content: json(components.schema(schema, "output")),
  });
  return {
    400: answer("The request cannot be understood: it broke off, or asks for what is not possible in this state", body),
    401: answer("No API key, or none that is valid", body),
    403: answer("Not permitted to the bearer of this key", body),
    404: answer("There is no such thing, or none that the bearer of this key may see", body),
    405: answer("Another method; the header `allow` names those that are possible", body),
    409: answer("A name is taken, or the state of things does not allow it", body),
    413: answer("The body is too large", body),
    422: answer("The request is not as it should be", refused),
    429: answer("As many requests wait as may; try again after what `retry-after` says, in seconds", body),
    500: answer("A fault of the engine", body),
    503: answer("Closing, draining, out of room, or without something that it needs", body),
    default: answer("Any other failure: 499 where the client broke off", body),
  };
}

function requestBody({ body, isUpload }: Route, components: Components): Json {
  if (isUpload) {
    return {
      requestBody: {
        required: true,
        content: { "application/octet-stream": { schema: { type: "string", format: "binary" } } },
      },
    };
  }
  return body ? { requestBody: { required: true, content: json(components.schema(body, "input")) } } : {};
}

function operation(route: Route, components: Components): Json {
  const others = Object.entries(route.others ?? {}).map(([status, { description, schema }]) => [
    status,
    { description, content: json(components.schema(schema, "output")) },
  ]);
  return {
    summary: route.summary,
    parameters: parameters(route, components),
    ...requestBody(route, components),
    responses: {
      200: success(route, components),
      ...Object.fromEntries(others),
      ...failures(route.path, components),
    },
  };
}

/** OpenAPI 3.1. */
export function openApiDocument(routes: readonly Route[], openRoutes: readonly OpenRoute[]): Json {
  const components = new Components();
  const paths: Record<string, Json> = {};
  for (const route of routes) {
    const path = pathTemplate(route);
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operation(route, components) };
  }
  for (const route of openRoutes) {
    const { path, summary, methods } = route;
    const described = {
      summary,
      security: [],
      responses: {
        200: success(route, components),
        default: {
          description: "Failure: 503 while the engine closes",
          content: json(components.schema(errors.errorBody, "output")),
        },
      },
    };
    paths[path] = Object.fromEntries(methods.map((method) => [method.toLowerCase(), described]));
  }
  return components.settle({
    openapi: "3.1.0",
    info: { title: "anneal", version: "1" },
    components: { securitySchemes: { key: { type: "http", scheme: "bearer" } } },
    security: [{ key: [] }],
    paths,
  });
}
