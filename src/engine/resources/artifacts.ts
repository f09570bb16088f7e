import type { Readable } from "node:stream";
import { ValidationError } from "../../errors.js";
import { validate } from "../../schemas/validate.js";
import type { StreamedFile } from "../../store/durableFiles.js";
import type { ArtifactRecord } from "../../store/records.js";
import type { Artifact, ArtifactCreateParams } from "../../types/artifacts.js";
import type { ArtifactsResource, RequestOptions } from "../../types/client.js";
import { checkEntity, type View } from "../core/access.js";
import type { EngineCore } from "../core/core.js";

/** Training data kept by the engine: files are put one by one under a name, then committed as its next version. */
export class Artifacts implements ArtifactsResource {
  readonly #core: EngineCore;
  readonly #view: View;

  /** @internal */
  constructor(core: EngineCore, view: View) {
    this.#core = core;
    this.#view = view;
  }

  async create(params: ArtifactCreateParams, options?: RequestOptions): Promise<Artifact> {
    options?.signal?.throwIfAborted();
    const { artifactCreate } = await import("../../schemas/artifacts.js");
    const { files, ...given } = validate(artifactCreate, params, { strict: this.#view.strict });
    const key = this.#key({ ...given, entity: given.entity ?? this.#view.caller.entity });
    const contents = Object.entries(files);
    if (contents.length === 0) throw ValidationError.at("files", "at least one file is needed");
    return toArtifact(await this.#core.store.artifacts.create(key, contents));
  }

  /** Stores one file of the name's next version, taking it in as it arrives; a file of that name is replaced. */
  async put(target: Record<string, unknown>, content: Readable | AsyncIterable<Uint8Array>): Promise<StreamedFile> {
    const { artifactFile } = await import("../../schemas/artifacts.js");
    const { file, ...key } = validate(artifactFile, target, { from: "path" });
    return this.#core.store.artifacts.put(this.#key(key), file, content);
  }

  /** Makes a version of the files put so far. */
  async commit(target: Record<string, unknown>): Promise<Artifact> {
    const { artifactName } = await import("../../schemas/artifacts.js");
    const key = this.#key(validate(artifactName, target, { from: "path" }));
    return toArtifact(this.#core.store.artifacts.commit(key));
  }

  #key(key: { entity: string; project: string; name: string }) {
    checkEntity(this.#view.caller, key.entity);
    return key;
  }
}

const toArtifact = ({ entity, project, name, version }: ArtifactRecord): Artifact => ({
  url: `wandb-artifact:///${entity}/${project}/${name}:v${version}`,
});
