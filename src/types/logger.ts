/** Where the library says what it does; `console` is one. Without a logger it says nothing. What a logger throws is ignored. */
export interface Logger {
  /** What only a search for a fault wants to know. */
  debug(message: string, fields?: Record<string, unknown>): void;
  /** What happens in the ordinary course of things. */
  info(message: string, fields?: Record<string, unknown>): void;
  /** What may be a fault; the engine goes on. */
  warn(message: string, fields?: Record<string, unknown>): void;
  /** What went wrong. */
  error(message: string, fields?: Record<string, unknown>): void;
}
