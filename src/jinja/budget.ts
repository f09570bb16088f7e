// What one rendering may use. A template comes from a model folder or from a request, so it must not be able to hang
// the process or fill its memory. Work is counted, not timed: a busy machine refuses nothing that an idle one renders.

import { TemplateError } from "./errors.js";

export interface TemplateLimits {
  /** Elementary operations: a value touched, a loop turn, a call. */
  steps: number;
  /** UTF-16 code units of all texts made, output included. */
  characters: number;
  /** UTF-16 code units of one text. */
  textLength: number;
  /** Macros and recursive loops within each other. */
  depth: number;
}

export const DEFAULT_LIMITS: TemplateLimits = {
  steps: 5_000_000,
  characters: 128 * 2 ** 20,
  textLength: 16 * 2 ** 20,
  depth: 50,
};

/** Sixteen-fold less than one step per character: texts are handled by native code. */
const CHARACTERS_PER_STEP = 16;

export class Budget {
  private steps: number;
  private characters: number;
  private depth = 0;

  constructor(private readonly limits: TemplateLimits) {
    this.steps = limits.steps;
    this.characters = limits.characters;
  }

  /** Steps taken so far. */
  get spent(): number {
    return this.limits.steps - this.steps;
  }

  /** Counts `count` elementary operations; call it before they are done. */
  step(count = 1): void {
    this.steps -= count;
    // Written so that NaN, which infinite counts can give, exceeds as well.
    if (!(this.steps >= 0)) this.exceeded(`more than ${this.limits.steps} steps`);
  }

  /** Counts a text of `length` about to be made; call it before making it. */
  text(length: number): void {
    if (!(length <= this.limits.textLength)) this.exceeded(`a text of more than ${this.limits.textLength} characters`);
    this.characters -= length;
    if (this.characters < 0) this.exceeded(`more than ${this.limits.characters} characters of text`);
    this.step(1 + Math.floor(length / CHARACTERS_PER_STEP));
  }

  /** Runs `inside` one level deeper. */
  nested<T>(inside: () => T): T {
    if (++this.depth > this.limits.depth) this.exceeded(`macros nested deeper than ${this.limits.depth}`);
    try {
      return inside();
    } finally {
      this.depth--;
    }
  }

  private exceeded(what: string): never {
    throw new TemplateError("budget", `the template asks for ${what}`);
  }
}

/** Rendering is synchronous, so one budget is in force at a time and every operation on values can charge it. */
let current = new Budget(DEFAULT_LIMITS);

export function budget(): Budget {
  return current;
}

export function withBudget<T>(limits: TemplateLimits, run: () => T): T {
  const outer = current;
  current = new Budget(limits);
  try {
    return run();
  } finally {
    current = outer;
  }
}
