import { isHeldOut, Random } from "./random.js";
import { words } from "./words.js";

const vowels = "aaaeeeeiioou";
const consonants = "bcdfghjklmnprstvwz";

/** Draws the items of a question from one side of the split: training draws never see a held-out item, and vice versa. */
export class Draw extends Random {
  readonly heldOut: boolean;
  readonly #words: readonly string[];

  constructor(seed: number, heldOut: boolean) {
    super(seed);
    this.heldOut = heldOut;
    this.#words = words.filter((word) => isHeldOut(word) === heldOut);
  }

  /** Repeats `make` until the key of its item lies on this side of the split. */
  item<T>(make: () => T, key: (item: T) => string): T {
    for (;;) {
      const made = make();
      if (isHeldOut(key(made)) === this.heldOut) return made;
    }
  }

  /** An item of a closed list that belongs to the world itself (both sides may ask about it). */
  ordinaryWord(minimum = 3, maximum = 8): string {
    for (;;) {
      const word = this.pick(this.#words);
      if (word.length >= minimum && word.length <= maximum) return word;
    }
  }

  /** A made-up word, mostly pronounceable, sometimes any letters. */
  #madeUp(length: number): string {
    if (this.chance(0.25)) {
      return Array.from({ length }, () => String.fromCharCode(97 + this.integer(0, 25))).join("");
    }
    let text = "";
    let vowel = this.chance(0.3);
    while (text.length < length) {
      text += this.pick([...(vowel ? vowels : consonants)]);
      if (!this.chance(0.12)) vowel = !vowel;
    }
    return text;
  }

  /** Half ordinary, half made up; lengths 3 to 7 mostly. */
  word(minimum = 3, maximum = 7): string {
    if (this.chance(0.5)) return this.ordinaryWord(minimum, maximum);
    return this.item(
      () => this.#madeUp(this.integer(minimum, maximum)),
      (word) => word,
    );
  }

  distinctWords(count: number, minimum = 3, maximum = 6): string[] {
    const found = new Set<string>();
    while (found.size < count) found.add(this.word(minimum, maximum));
    return [...found];
  }

  /** Two numbers with `operator` between them, split by the ordered pair. */
  pair(operator: string, make: () => readonly [number, number]): readonly [number, number] {
    return this.item(make, ([a, b]) => `${a}${operator}${b}`);
  }

  /** Mostly small: one digit or two. */
  smallNumber(maximum = 99): number {
    return this.chance(0.35) ? this.integer(0, Math.min(9, maximum)) : this.integer(0, maximum);
  }
}
