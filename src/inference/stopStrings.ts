// Stop strings in text that comes in pieces: what may be shown already, and where the text ends.

export interface StopMatch {
  stop: string;
  /** Text that may be shown now, cut before or after the match. */
  text: string;
}

/** What all choices of a request need to know of its stop strings. There may be very many. */
class StopList {
  /** In UTF-16 units. */
  readonly maxLength: number;
  readonly maxCodePoints: number;
  /** By their last UTF-16 unit, each in list order. */
  private readonly byEnd = new Map<number, string[]>();

  constructor(stops: readonly string[]) {
    let [maxLength, maxCodePoints] = [0, 0];
    for (const stop of new Set(stops)) {
      // Half a pair is in no text, and would cut a character of it in two.
      if (!stop.isWellFormed()) continue;
      maxLength = Math.max(maxLength, stop.length);
      maxCodePoints = Math.max(maxCodePoints, codePoints(stop));
      const end = stop.charCodeAt(stop.length - 1);
      const alike = this.byEnd.get(end);
      if (alike === undefined) this.byEnd.set(end, [stop]);
      else alike.push(stop);
    }
    this.maxLength = maxLength;
    this.maxCodePoints = maxCodePoints;
  }

  /** Of the matches that end behind `from`, the one that ends first; ties by list order. */
  firstMatch(text: string, from: number): { stop: string; end: number } | null {
    for (let end = from + 1; end <= text.length; end++) {
      const stop = this.byEnd.get(text.charCodeAt(end - 1))?.find((candidate) => text.endsWith(candidate, end));
      if (stop !== undefined) return { stop, end };
    }
    return null;
  }
}

const lists = new WeakMap<readonly string[], StopList>();

function listOf(stops: readonly string[]): StopList {
  let list = lists.get(stops);
  if (list === undefined) {
    list = new StopList(stops);
    lists.set(stops, list);
  }
  return list;
}

/**
 * Searches every piece together with what came before it, so a match may span pieces. Without `include`, the last
 * (longest stop string - 1) code points are held back until the end, since they may yet belong to a match.
 */
export class StopStrings {
  private readonly list: StopList;
  private readonly holdBack: number;
  /** Shown or not, the last `maxLength - 1` UTF-16 units of the text, and all that is held back. */
  private tail: string;
  /** Length of what is held back, at the end of `tail`, in UTF-16 units. */
  private held: number;

  /** `stops` must not change: what is worked out of them is kept with them. */
  constructor(
    private readonly stops: readonly string[],
    private readonly include: boolean,
    from?: StopStrings,
  ) {
    this.list = listOf(stops);
    this.holdBack = include ? 0 : Math.max(0, this.list.maxCodePoints - 1);
    this.tail = from?.tail ?? "";
    this.held = from?.held ?? 0;
  }

  /**
   * Adds a piece: the text that may be shown, or the match that completes first in the text (ties by list order). With
   * `search` false the piece is kept but not searched; a later match must end after it.
   */
  push(piece: string, search: boolean): string | StopMatch {
    if (piece === "") return "";
    const text = this.tail + piece;
    const shownUpTo = this.tail.length - this.held;
    if (search) {
      const match = this.list.firstMatch(text, this.tail.length);
      if (match !== null) {
        const end = this.include ? match.end : match.end - match.stop.length;
        return { stop: match.stop, text: text.slice(shownUpTo, Math.max(end, shownUpTo)) };
      }
    }
    const keep = lastCodePoints(text, this.holdBack);
    const shown = Math.max(shownUpTo, text.length - keep);
    this.held = text.length - shown;
    this.tail = text.slice(Math.min(shown, Math.max(0, text.length - this.list.maxLength + 1)));
    return text.slice(shownUpTo, shown);
  }

  /** What was held back, when no match can come any more. */
  flush(): string {
    const rest = this.tail.slice(this.tail.length - this.held);
    this.held = 0;
    return rest;
  }

  /** A search that goes on from here by itself. */
  fork(): StopStrings {
    return new StopStrings(this.stops, this.include, this);
  }
}

function codePoints(text: string): number {
  let count = 0;
  for (const _ of text) count++;
  return count;
}

/** UTF-16 units of the last `count` code points. */
function lastCodePoints(text: string, count: number): number {
  let at = text.length;
  for (let left = count; left > 0 && at > 0; left--) {
    const low = text.charCodeAt(at - 1);
    const pair = low >= 0xdc00 && low <= 0xdfff && at > 1;
    const high = pair ? text.charCodeAt(at - 2) : 0;
    at -= pair && high >= 0xd800 && high <= 0xdbff ? 2 : 1;
  }
  return text.length - at;
}
