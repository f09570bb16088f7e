// One choice on its way through the steps: its tokens, how far they are computed, and the pages they lie in.

import type { StepSequence } from "../runtime/runtime.js";
import { PAGE_SIZE, PART_SIZE, PARTS_PER_PAGE, partHash, rootHash } from "./blockPool.js";
import type { SamplingSettings } from "./request.js";

export type SequenceState = "waiting" | "running" | "finished";

/** What all choices of one request share. */
export interface SequenceOrigin {
  params: SamplingSettings;
  adapter: number;
  cacheSalt: string | null;
  useCache: boolean;
  priority: number;
  /** Order of arrival over all requests of the loop. */
  arrival: number;
  /** Tokens that a grammar forces are taken together with the one drawn before them. */
  jumps: boolean;
}

/** Forced tokens that one draw takes at most. */
const LONGEST_JUMP = 31;

export class Sequence {
  state: SequenceState = "waiting";
  /** Prompt and outputs; only the first `length` count. */
  tokens: Int32Array;
  length: number;
  readonly promptLength: number;
  /** Tokens whose keys and values are in the cache, or will be once the steps already issued have run. */
  computed = 0;
  /** Tokens drawn by steps in flight, known only on the native side so far. */
  pending = 0;
  /** Forced tokens at most that those draws take. */
  pendingForced = 0;
  /** Steps in flight that hold a row of this sequence. */
  inFlight = 0;
  /** Sampling state on the device; -1: none yet (or none at all, for beams). */
  slot = -1;
  /** Prompt tokens that the first admission found in the cache. */
  cachedTokens = 0;
  /** Set when the sequence has been admitted before. */
  admittedBefore = false;
  /** Tokens the step being built computes. */
  chunk = 0;

  private blockTable = new Int32Array(0);
  private held = 0;
  private view: Int32Array = this.blockTable;
  private published = 0;
  private readonly hashes: string[];

  constructor(
    readonly origin: SequenceOrigin,
    /** The choice. */
    readonly index: number,
    /** Not written to: choices of one request share it. */
    prompt: Int32Array,
    /** The choice whose prompt pages this one shares, once they are computed. */
    readonly source: Sequence | null,
    /** Beams draw nothing: each step reports the most likely tokens of the row, this many. 0: not a beam. */
    readonly beamCandidates = 0,
  ) {
    this.promptLength = prompt.length;
    this.length = prompt.length;
    this.tokens = prompt;
    this.hashes = [];
  }

  /** A beam that goes on from `parent` with one more token; it holds no pages yet. */
  static branch(parent: Sequence, index: number, token: number): Sequence {
    const prompt = parent.tokens.subarray(0, parent.promptLength);
    const branch = new Sequence(parent.origin, index, prompt, null, parent.beamCandidates);
    branch.tokens = new Int32Array(parent.length + 1);
    branch.tokens.set(parent.tokens.subarray(0, parent.length));
    branch.tokens[parent.length] = token;
    branch.length = parent.length + 1;
    for (const hash of parent.hashes) branch.hashes.push(hash);
    branch.published = parent.published;
    return branch;
  }

  get outputs(): number {
    return this.length - this.promptLength;
  }

  /** Tokens that the next step could compute. */
  get wanted(): number {
    if (this.beamCandidates === 0 && this.outputs + this.pending >= this.origin.params.maxTokens) return 0;
    const left = this.length + this.pending - this.computed;
    // Only the row of a beam's last token is reported, so that token is computed alone.
    return this.beamCandidates > 0 && left > 1 ? left - 1 : left;
  }

  /** Positions that pages should be held for when `chunk` more are computed: with room for forced tokens, if there is. */
  roomWished(chunk: number): number {
    const known = this.computed + chunk;
    if (!this.origin.jumps) return known;
    // Two draws may be in flight.
    return Math.min(known + 2 * (1 + LONGEST_JUMP), this.promptLength + this.origin.params.maxTokens);
  }

  /** Forced tokens that the draw of the step being built may take: they end within the limit and the pages held. */
  private get jump(): number {
    const { origin, pending, pendingForced } = this;
    if (!origin.jumps) return 0;
    const outputs = this.outputs + pending + pendingForced + 1;
    const held = this.held * PAGE_SIZE - this.promptLength;
    return Math.max(0, Math.min(LONGEST_JUMP, Math.min(origin.params.maxTokens, held) - outputs));
  }

  /** A draw has taken `count` forced tokens of the `most` it was allowed. */
  tookForced(count: number, most: number): void {
    this.pendingForced -= most;
    // A step in flight that goes on from the draw computes them with it, unless the pages have been given up meanwhile.
    if (this.inFlight > 0 && this.state === "running") this.computed += count;
  }

  append(token: number): void {
    if (this.length === this.tokens.length) {
      const larger = new Int32Array(this.tokens.length + Math.max(64, this.outputs));
      larger.set(this.tokens);
      this.tokens = larger;
    }
    this.tokens[this.length++] = token;
  }

  /** Page ids in order of position. Copied by whoever keeps it. */
  get blocks(): Int32Array {
    return this.view;
  }

  addBlock(page: number): void {
    if (this.held === this.blockTable.length) {
      const pages = Math.ceil(this.length / PAGE_SIZE) + 2;
      const larger = new Int32Array(Math.max(pages, this.blockTable.length * 2));
      larger.set(this.blockTable);
      this.blockTable = larger;
    }
    this.blockTable[this.held++] = page;
    this.view = this.blockTable.subarray(0, this.held);
  }

  replaceBlock(at: number, page: number): void {
    this.blockTable[at] = page;
  }

  clearBlocks(): void {
    this.held = 0;
    this.view = this.blockTable.subarray(0, 0);
    this.published = 0;
    this.computed = 0;
  }

  /** Hash of the full page `at`; its tokens must be known. */
  hashOfPage(at: number): string {
    return this.hashOfPart((at + 1) * PARTS_PER_PAGE - 1);
  }

  /** Hash of the full part `at`, counted from the first token on; its tokens must be known. */
  hashOfPart(at: number): string {
    const fromSource = this.source === null ? 0 : Math.floor(this.promptLength / PART_SIZE);
    if (at < fromSource) return this.source!.hashOfPart(at);
    for (let i = this.hashes.length; i < fromSource; i++) this.hashes.push(this.source!.hashOfPart(i));
    for (let i = this.hashes.length; i <= at; i++) {
      const parent = this.hashes[i - 1] ?? rootHash(this.origin.adapter, this.origin.cacheSalt);
      this.hashes.push(partHash(parent, this.tokens.subarray(i * PART_SIZE, (i + 1) * PART_SIZE)));
    }
    return this.hashes[at]!;
  }

  /** Parts filled with known tokens since the last call, as [from, to). */
  newlyFull(): [from: number, to: number] | null {
    const full = Math.floor(Math.min(this.computed, this.length) / PART_SIZE);
    if (full <= this.published) return null;
    const from = this.published;
    this.published = full;
    return [from, full];
  }

  /**
   * The row this sequence takes in the step being built: `chunk` tokens from `computed` on. Reused from step to step:
   * the runtime copies it when the step is issued.
   */
  row(): Required<StepSequence> {
    const { stepRow: row, origin, chunk } = this;
    const from = this.computed;
    const to = from + chunk;
    const last = to === this.length + this.pending;
    row.slot = this.slot;
    row.tokens = from < this.length ? this.tokens.subarray(from, to) : null;
    row.position = from;
    row.blocks = this.view;
    row.adapter = origin.adapter;
    row.sample = last && this.beamCandidates === 0;
    row.outputIndex = this.outputs + this.pending;
    row.jump = row.sample ? this.jump : 0;
    row.promptLogprobs = -1;
    row.next = null;
    const promptLogprobs = this.index === 0 ? origin.params.promptLogprobs : null;
    if (last && this.beamCandidates > 0) {
      row.promptLogprobs = this.beamCandidates;
      row.next = NO_NEXT;
    } else if (promptLogprobs !== null && from < this.promptLength - 1 && this.outputs === 0) {
      row.promptLogprobs = promptLogprobs;
      row.next = new Int32Array(chunk).fill(-1);
      row.next.set(this.tokens.subarray(from + 1, Math.min(to + 1, this.promptLength)));
    }
    return row;
  }

  private readonly stepRow: Required<StepSequence> = {
    slot: -1,
    tokens: null,
    position: 0,
    blocks: new Int32Array(0),
    adapter: 0,
    sample: false,
    outputIndex: 0,
    jump: 0,
    promptLogprobs: -1,
    next: null,
  };
}

const NO_NEXT = Int32Array.of(-1);
