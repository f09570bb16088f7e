// An encoder in ONNX: vectors of texts, or classes.

import { availableParallelism } from "node:os";
import { ModelFileError } from "../errors.js";
import { OnnxThread } from "../runtime/onnx/onnxThread.js";
import type { EncoderText } from "../text/encoderTokenizer.js";
import { type EncoderFolder, openEncoderFolder } from "./encoderFolder.js";
import type { EncoderOptions, EncoderTasks } from "./encoderTasks.js";

export interface EncoderSettings {
  /** Which of the folder's graphs. */
  variant?: string;
  /** Default "cpu". */
  executionProvider?: string;
  /** Of one run. Default: the cores. */
  threads?: number;
}

export class OnnxEncoder {
  private constructor(
    private readonly thread: OnnxThread<EncoderTasks>,
    readonly folder: EncoderFolder,
    /** Whether the graph gives classes rather than vectors. */
    readonly classifies: boolean,
  ) {}

  /** @throws ModelFileError for a folder that cannot be used; UnavailableError without onnxruntime-node. */
  static async open(
    path: string,
    { variant, executionProvider = "cpu", threads = availableParallelism() }: EncoderSettings = {},
  ): Promise<OnnxEncoder> {
    const folder = await openEncoderFolder(path, variant);
    const options: EncoderOptions = { file: folder.file, executionProvider, threads, folder: path };
    const thread = new OnnxThread<EncoderTasks>("onnx/encoderWorker", options);
    try {
      return new OnnxEncoder(thread, folder, (await thread.ask("open", {})).classifies);
    } catch (error) {
      thread.close();
      throw error;
    }
  }

  /**
   * A vector of each text, pooled and scaled as the folder says; and how many tokens each has, before it is cut to `maxTokens`
   * (default: what the model takes).
   */
  async embed(
    texts: EncoderText[],
    maxTokens = this.folder.maxTokens,
  ): Promise<{ vectors: Float32Array[]; tokens: number[] }> {
    if (this.classifies) throw new ModelFileError(this.folder.file, "gives classes, no vectors");
    const { pooling, normalize } = this.folder;
    const { rows, tokens } = await this.thread.ask("encode", { texts, pooling, normalize, maxTokens });
    return { vectors: rows, tokens };
  }

  /** The logits of the classes, of each text. */
  async classify(texts: EncoderText[]): Promise<Float32Array[]> {
    if (!this.classifies) throw new ModelFileError(this.folder.file, "gives vectors, no classes");
    const { maxTokens } = this.folder;
    return (await this.thread.ask("encode", { texts, pooling: "mean", normalize: false, maxTokens })).rows;
  }

  close(): void {
    this.thread.close();
  }
}
