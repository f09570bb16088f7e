// unevaluatedProperties and unevaluatedItems: in one branch it is known what the others evaluate, so that these keywords
// become additionalProperties and items beside what is evaluated.

import { isObject, type JsonObject, type SchemaDocument, type SchemaNode } from "./document.js";
import { keysOf } from "./keywords.js";
import { arrayParts, type Branch } from "./shape.js";

/** `branch` comes of `node`; adds what the node asks of the rest. */
export function withoutUnevaluated(document: SchemaDocument, node: SchemaNode, branch: Branch): Branch {
  const schema = node.schema as JsonObject;
  const evaluating = branch.filter((one) => !one.silent && isObject(one.schema));
  const added: SchemaNode[] = [];
  if (schema.unevaluatedProperties !== undefined) added.push(restOfProperties(document, node, evaluating));
  if (schema.unevaluatedItems !== undefined) added.push(restOfItems(document, node, evaluating));
  return [...branch, ...added];
}

function restOfProperties(document: SchemaDocument, node: SchemaNode, evaluating: Branch): SchemaNode {
  const isAll = evaluating.some((one) => (one.schema as JsonObject).additionalProperties !== undefined);
  const all = (keyword: string) =>
    Object.fromEntries(evaluating.flatMap((one) => keysOf(one, keyword)).map((key) => [key, true]));
  const schema: JsonObject = {
    properties: all("properties"),
    patternProperties: all("patternProperties"),
    additionalProperties: isAll ? true : (node.schema as JsonObject).unevaluatedProperties,
  };
  return document.derive(node, `rest of properties ${identity(evaluating)}`, { schema });
}

function restOfItems(document: SchemaDocument, node: SchemaNode, evaluating: Branch): SchemaNode {
  const parts = evaluating.map((one) => arrayParts(document, one));
  const prefix = Array.from({ length: Math.max(0, ...parts.map((part) => part.prefix.length)) }, () => true);
  const rest = (node.schema as JsonObject).unevaluatedItems;
  const found = evaluating.map((one) => (one.schema as JsonObject).contains).filter((one) => one !== undefined);
  const isAll = parts.some((part) => part.rest.length > 0);
  const items = found.length > 0 && document.containsEvaluates ? { anyOf: [rest, ...found] } : rest;
  const schema: JsonObject = { prefixItems: prefix, items: isAll ? true : items };
  return document.derive(node, `rest of items ${identity(evaluating)}`, { schema });
}

function identity(nodes: Branch): string {
  return nodes.map((one) => one.id).join(" ");
}
