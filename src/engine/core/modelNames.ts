import { isName } from "../../schemas/names.js";

/** What a request's `model` string asks for; names are checked, nothing is looked up. */
export type ModelName =
  | { kind: "full"; entity: string; project: string; name: string; step: number | null }
  | { kind: "project"; project: string; name: string; step: number | null }
  | { kind: "bare"; name: string; step: number | null };

const scheme = /^wandb-artifact:\/\/\/?/;

/** A step number as written, or null when it is not one ("01" and "1.0" are not). */
function readStep(text: string): number | null {
  return /^(0|[1-9]\d{0,14})$/.test(text) ? Number(text) : null;
}

/**
 * Reads `wandb-artifact:///entity/project/name[:stepN]`, the same with two slashes or with no scheme at all,
 * `project/name[:stepN]`, `name@N` and `name`. `:latest` is the same as no step. null: no such form.
 */
export function parseModelName(text: string): ModelName | null {
  const hasScheme = scheme.test(text);
  const parts = text.replace(scheme, "").split("/");
  if (parts.length === 3 || (parts.length === 2 && !hasScheme)) {
    const last = parts.pop()!;
    const colon = last.indexOf(":");
    const name = colon < 0 ? last : last.slice(0, colon);
    const alias = colon < 0 ? "latest" : last.slice(colon + 1);
    const step = alias.startsWith("step") ? readStep(alias.slice("step".length)) : null;
    if ((step === null && alias !== "latest") || ![...parts, name].every(isName)) return null;
    const [project, entity] = parts.reverse() as [string, string?];
    return entity === undefined
      ? { kind: "project", project, name, step }
      : { kind: "full", entity, project, name, step };
  }
  if (parts.length !== 1 || hasScheme) return null;
  const at = text.indexOf("@");
  if (at < 0) return isName(text) ? { kind: "bare", name: text, step: null } : null;
  const step = readStep(text.slice(at + 1));
  const name = text.slice(0, at);
  return step !== null && isName(name) ? { kind: "bare", name, step } : null;
}

/** The name of a trained model that clients use: of its latest step, or of one. */
export function servedName(model: { entity: string; project: string; name: string }, step?: number): string {
  const latest = `wandb-artifact:///${model.entity}/${model.project}/${model.name}`;
  return step === undefined ? latest : `${latest}:step${step}`;
}
