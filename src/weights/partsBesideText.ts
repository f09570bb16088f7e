import type { JsonFields } from "./jsonFields.js";

/** What the model takes beside text, by its configuration: none of it is loaded. */
export function partsBesideText(config: JsonFields): string[] {
  const parts = config.names.flatMap((name) => /^(vision|audio|video|speech)_config$/.exec(name)?.[1] ?? []);
  return parts.filter((part) => config.get(`${part}_config`) !== null);
}
