import { NotFoundError, ValidationError } from "../../errors.js";
import type { ModelRecord } from "../../store/records.js";
import { type Caller, checkEntity } from "./access.js";
import type { BaseModel } from "./baseModel.js";
import type { EngineCore } from "./core.js";
import { type ModelName, parseModelName, servedName } from "./modelNames.js";

/** What a request's `model` stands for, pinned until `release`. */
export interface ServedModel {
  base: BaseModel;
  /** null: the base model itself. */
  trained: {
    modelId: string;
    name: string;
    entity: string;
    project: string;
    step: number;
    /** With the step: names these weights for as long as the checkpoint exists. */
    servedName: string;
  } | null;
  /** Adapter version id on the device; 0: the base model. */
  adapter: number;
  /** To be called once the request has ended. */
  release(): void;
}

function notFound(message: string): NotFoundError {
  return new NotFoundError(message, {
    code: "model_not_found",
    param: "model",
    hint: "models.list() names what there is",
  });
}

/** The registered model that is meant; null: none. Other entities' models are refused, and never found by bare names. */
function findModel(core: EngineCore, wanted: ModelName, caller: Caller): ModelRecord | null {
  if (wanted.kind === "full") {
    checkEntity(caller, wanted.entity, "model");
    return core.store.models.find(wanted.entity, wanted.project, wanted.name);
  }
  if (wanted.kind === "project") return core.store.models.find(caller.entity, wanted.project, wanted.name);
  const candidates = core.store.models.list({ entity: caller.entity, name: wanted.name });
  if (candidates.length > 1) {
    const names = candidates.map((model) => servedName(model, wanted.step ?? undefined)).join(", ");
    throw notFound(`"${wanted.name}" may be any of ${names}`);
  }
  return candidates[0] ?? null;
}

/**
 * Finds and pins what `given` stands for: the first base model when it is absent or empty, otherwise exactly what it says.
 * @throws NotFoundError with code "model_not_found" and param "model"; PermissionDeniedError for another's entity;
 * ClosedError.
 */
export async function resolveModel(
  core: EngineCore,
  given: string | null | undefined,
  caller: Caller,
): Promise<ServedModel> {
  core.closing.throwIfAborted();
  // As in vLLM, "" asks for nothing in particular.
  const name = given || null;
  const base = name === null ? core.defaultBase : core.bases.get(name);
  const parsed = name === null ? null : parseModelName(name);
  // A base model's id has that form as well, and wins.
  const wanted = base && parsed?.kind === "project" ? null : parsed;
  const model = wanted && findModel(core, wanted, caller);
  if (base) {
    if (model) throw notFound(`"${name}" may be the base model or ${servedName(model)}`);
    return { base, trained: null, adapter: 0, release: core.loaded.pin(base) };
  }
  if (core.encoders.has(name ?? "")) {
    throw ValidationError.at("model", `${name} is an encoder, which makes vectors only`, "not_supported", {
      hint: "ask for embeddings of it",
    });
  }
  if (!wanted || !model) throw notFound(`there is no model "${name}"`);
  const checkpoint =
    wanted.step === null ? core.store.checkpoints.latest(model.id) : core.store.checkpoints.get(model.id, wanted.step);
  if (!checkpoint) throw notFound(`${servedName(model)} has no step ${wanted.step}`);
  const itsBase = core.baseOf(model);
  const unpin = core.loaded.pin(itsBase);
  const pin = await core.adapters.acquire(itsBase, model.id, checkpoint.step).catch((error: unknown) => {
    unpin();
    // It may have been deleted while it was being read.
    if (core.store.checkpoints.get(model.id, checkpoint.step)) throw error;
    throw notFound(`${servedName(model)} has no step ${checkpoint.step} any more`);
  });
  return {
    base: itsBase,
    trained: {
      modelId: model.id,
      name: model.name,
      entity: model.entity,
      project: model.project,
      step: checkpoint.step,
      servedName: servedName(model, checkpoint.step),
    },
    adapter: pin.version,
    release() {
      pin.release();
      unpin();
    },
  };
}
