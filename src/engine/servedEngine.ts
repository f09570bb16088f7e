import type { HealthReport, SystemReport } from "../types/health.js";
import type { Logger } from "../types/logger.js";
import type { Resources } from "./resources/resources.js";

/** What a server knows of the engine that it serves. */
export interface ServedEngine {
  readonly logger: Logger;
  /**
   * The engine as the bearer of an API key may use it, parameters taken as the wire takes them; null: the key is not valid.
   * @internal
   */
  authenticate(key: string): Resources | null;
  health(): Promise<HealthReport>;
  systemCheck(): Promise<SystemReport>;
}
