import { UsageError } from "./flags.js";

/** `PROJECT/NAME` or `ENTITY/PROJECT/NAME`, of a model that may be made. @throws UsageError */
export function readName(text: string): { entity?: string; project: string; name: string } {
  const parts = text.split("/");
  if (parts.some((part) => part === "") || parts.length < 2 || parts.length > 3) {
    throw new UsageError(`a model is named PROJECT/NAME, not "${text}"`);
  }
  const [name, project, entity] = parts.reverse() as [string, string, string?];
  return { ...(entity !== undefined && { entity }), project, name };
}
