import { PermissionDeniedError } from "../../errors.js";

/** Whose request it is. The owner may act in any entity; others only in their own. */
export interface Caller {
  /** The entity of what the caller makes and of bare names. */
  entity: string;
  owner: boolean;
}

/** How an engine is looked at: on whose behalf, and whether unknown parameters are errors (in process) or ignored (the wire). */
export interface View {
  caller: Caller;
  strict: boolean;
}

/** @throws PermissionDeniedError unless the caller may act in the entity. */
export function checkEntity(caller: Caller, entity: string, param = "entity"): void {
  if (caller.owner || caller.entity === entity) return;
  throw new PermissionDeniedError(`the API key belongs to "${caller.entity}", not to "${entity}"`, { param });
}
