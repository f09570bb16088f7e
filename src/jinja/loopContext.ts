// `loop` inside a `for`.

import { bind } from "./callValues.js";
import { equal } from "./comparison.js";
import { Callable, type CallValues, PythonObject, raise, Undefined, type Value } from "./values.js";

export class LoopContext extends PythonObject {
  readonly typeName = "LoopContext";
  /** Index of the current item; -1 before the first. */
  index = -1;
  private lastChanged: Value[] | null = null;

  /** `again` renders the loop over other items, one level deeper; null where the loop is not recursive. */
  constructor(
    private readonly items: readonly Value[],
    private readonly depth: number,
    private readonly again: ((iterable: Value, depth: number) => string) | null,
  ) {
    super();
  }

  override attribute(name: string): Value | undefined {
    const length = this.items.length;
    switch (name) {
      case "index":
        return this.index + 1;
      case "index0":
        return this.index;
      case "revindex":
        return length - this.index;
      case "revindex0":
        return length - this.index - 1;
      case "first":
        return this.index === 0;
      case "last":
        return this.index === length - 1;
      case "length":
        return length;
      case "depth":
        return this.depth + 1;
      case "depth0":
        return this.depth;
      case "previtem":
        return this.neighbour(-1);
      case "nextitem":
        return this.neighbour(1);
      case "cycle":
        return new Callable(name, (values) => this.cycle(values));
      case "changed":
        return new Callable(name, (values) => this.changed(values));
      default:
        return undefined;
    }
  }

  private neighbour(offset: number): Value {
    const item = this.items[this.index + offset];
    return item === undefined ? new Undefined(`there is no ${offset < 0 ? "previous" : "next"} item`) : item;
  }

  /** `loop(items)` in a recursive loop. */
  call(values: CallValues): Value {
    if (this.again === null) {
      return raise("TypeError", "The loop must have the 'recursive' marker to be called recursively.");
    }
    return this.again(bind("loop", ["iterable"], values, 1)[0]!, this.depth + 1);
  }

  private cycle({ positional }: CallValues): Value {
    if (positional.length === 0) return raise("TypeError", "no items for cycling given");
    return positional[this.index % positional.length]!;
  }

  private changed({ positional }: CallValues): boolean {
    const last = this.lastChanged;
    this.lastChanged = positional;
    if (last === null || last.length !== positional.length) return true;
    return !positional.every((value, index) => equal(value, last[index]!));
  }
}
