import * as z from "zod";
import { NotFoundError, PermissionDeniedError } from "../../errors.js";
import { shouldYield, yieldToEventLoop } from "../../eventLoop.js";
import { uuid } from "../../schemas/names.js";
import { validate } from "../../schemas/validate.js";
import { equalSecrets } from "../../store/keys.js";
import type { KeyRecord } from "../../store/records.js";
import type { KeysResource, RequestOptions } from "../../types/client.js";
import type { ApiKey, ApiKeyCreated } from "../../types/models.js";
import type { Caller, View } from "../core/access.js";
import type { EngineCore } from "../core/core.js";

function toKey(record: KeyRecord): ApiKey {
  const { id, entity, name, prefix, createdAt, revokedAt } = record;
  return {
    id,
    entity,
    name,
    prefix,
    created_at: new Date(createdAt).toISOString(),
    revoked_at: revokedAt === null ? null : new Date(revokedAt).toISOString(),
  };
}

/**
 * Whose key this is; null: nobody's.
 * @internal
 */
export function callerOfKey(core: EngineCore, key: string): Caller | null {
  if (equalSecrets(key, core.ownerKey)) return core.owner;
  const record = core.store.keys.find(key);
  return record && { entity: record.entity, owner: false };
}

export class Keys implements KeysResource {
  readonly #core: EngineCore;
  readonly #view: View;

  /** @internal */
  constructor(core: EngineCore, view: View) {
    this.#core = core;
    this.#view = view;
  }

  async create(
    params: { entity?: string | null; name?: string | null } = {},
    options?: RequestOptions,
  ): Promise<ApiKeyCreated> {
    this.#check(options);
    const { keyCreate } = await import("../../schemas/models.js");
    const { entity, name } = validate(keyCreate, params, { strict: this.#view.strict });
    while (shouldYield()) await yieldToEventLoop();
    const { key, record } = this.#core.store.keys.create({ entity: entity ?? this.#view.caller.entity, name });
    return { ...toKey(record), key };
  }

  async list(options?: RequestOptions): Promise<ApiKey[]> {
    this.#check(options);
    return this.#core.store.keys.list().map(toKey);
  }

  async revoke(keyId: string, options?: RequestOptions): Promise<void> {
    this.#check(options);
    validate(z.object({ key_id: uuid }), { key_id: keyId }, { from: "path" });
    if (!this.#core.store.keys.revoke(keyId)) throw new NotFoundError(`no key ${keyId}`, { param: "key_id" });
  }

  #check(options: RequestOptions | undefined): void {
    options?.signal?.throwIfAborted();
    if (!this.#view.caller.owner) throw new PermissionDeniedError("only the owner's key may manage keys");
  }
}
