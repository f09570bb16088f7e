// Looking for a tag in a text that comes in pieces.

/** What a piece of text made certain. */
export interface BeforeTag {
  text: string;
  /** Once the tag has come: the white space before it, and what follows it. */
  found: { space: string; after: string } | null;
}

/** Holds back what may be the tag, and white space that may stand before it; constant work per character. */
export class TagSearch {
  private space = "";
  private tail = "";

  constructor(private readonly tag: string) {}

  push(piece: string): BeforeTag {
    const all = this.tail + piece;
    const at = all.indexOf(this.tag);
    const certain = at >= 0 ? all.slice(0, at) : all.slice(0, all.length - this.heldLength(all));
    const body = certain.trimEnd();
    const text = body === "" ? "" : this.space + body;
    this.space = (body === "" ? this.space : "") + certain.slice(body.length);
    this.tail = at >= 0 ? "" : all.slice(certain.length);
    if (at < 0) return { text, found: null };
    const { space } = this;
    this.space = "";
    return { text, found: { space, after: all.slice(at + this.tag.length) } };
  }

  /** What was held back. */
  flush(): string {
    const rest = this.space + this.tail;
    this.space = "";
    this.tail = "";
    return rest;
  }

  /** How many of the last characters could be the beginning of the tag. */
  private heldLength(text: string): number {
    for (let length = Math.min(text.length, this.tag.length - 1); length > 0; length--) {
      if (this.tag.startsWith(text.slice(text.length - length))) return length;
    }
    return 0;
  }
}
