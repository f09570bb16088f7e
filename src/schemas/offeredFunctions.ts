// What a response offers as functions, apart from its schemas, whose making a start needs not wait for.

import type { ResponseToolParam } from "../types/responses.js";

/** A function as the model sees it, and where among `tools` it is. */
export interface OfferedFunction {
  name: string;
  definition: Pick<ResponseToolParam, "description" | "parameters" | "strict">;
  place: string[];
}

/** What a function of a namespace is called. */
export const namespacedName = (namespace: string | null | undefined, name: string): string =>
  namespace == null ? name : `${namespace}__${name}`;

export function offeredFunctions(tools: readonly ResponseToolParam[] | undefined): OfferedFunction[] {
  const offered: OfferedFunction[] = [];
  for (const [i, one] of (tools ?? []).entries()) {
    const place = [String(i)];
    if (one.type === "function") {
      offered.push({ name: one.name!, definition: one, place });
    } else if (one.type === "namespace") {
      for (const [j, definition] of (one.tools ?? []).entries()) {
        const name = namespacedName(one.name, definition.name!);
        offered.push({ name, definition, place: [...place, "tools", String(j)] });
      }
    }
  }
  return offered;
}
