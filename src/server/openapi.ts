import { z } from "zod";
import * as errors from "../schemas/errors.js";
import { styleOf } from "./errorBodies.js";
import { type OpenRoute, pathTemplate, type Route } from "./route.js";

type Json = Record<string, unknown>;

/** Input shapes for what is sent, output shapes for what is answered; bigint bounds and checks in code are left out. */
function jsonSchema(schema: z.ZodType, io: "input" | "output"): Json {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io, unrepresentable: "any" });
  return rest;
}

const json = (schema: Json) => ({ content: { "application/json": { schema } } });

function parameters(route: Route): Json[] {
  const path = [...route.path.matchAll(/:(\w+)/g)].map(([, name]) => ({
    name,
    in: "path",
    required: true,
    schema: { type: "string" },
  }));
  const query = Object.entries(route.query?.shape ?? {}).map(([name, schema]) => ({
    name,
    in: "query",
    required: false,
    schema: jsonSchema(schema as z.ZodType, "input"),
  }));
  return [...path, ...query];
}

function success(response: z.ZodType | undefined): Json {
  return { description: "Success", ...(response ? json(jsonSchema(response, "output")) : {}) };
}

function operation(route: Route): Json {
  const other = styleOf(route.path) === "detail" ? errors.detailBody : errors.errorBody;
  return {
    summary: route.summary,
    parameters: parameters(route),
    ...(route.body ? { requestBody: { required: true, ...json(jsonSchema(route.body, "input")) } } : {}),
    responses: {
      200: success(route.response),
      422: { description: "Validation failure", ...json(jsonSchema(errors.validationBody, "output")) },
      default: { description: "Failure", ...json(jsonSchema(other, "output")) },
    },
  };
}

/** OpenAPI 3.1, from the schemas that check requests. */
export function openApiDocument(routes: readonly Route[], openRoutes: readonly OpenRoute[]): Json {
  const paths: Record<string, Json> = {};
  for (const route of routes) {
    const path = pathTemplate(route);
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operation(route) };
  }
  for (const { path, summary, response, methods } of openRoutes) {
    const described = { summary, security: [], responses: { 200: success(response) } };
    paths[path] = Object.fromEntries(methods.map((method) => [method.toLowerCase(), described]));
  }
  return {
    openapi: "3.1.0",
    info: { title: "anneal", version: "1" },
    components: { securitySchemes: { key: { type: "http", scheme: "bearer" } } },
    security: [{ key: [] }],
    paths,
  };
}
