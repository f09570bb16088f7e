import { channel } from "node:diagnostics_channel";

/** What the engine publishes on `node:diagnostics_channel`; messages are plain objects. */
export const diagnostics = {
  /** `{ home }` */
  engineOpen: channel("anneal:engine:open"),
  /** `{ home }` */
  engineClose: channel("anneal:engine:close"),
  /** `{ id, folder, dtype, bytes, kvPages, seconds }` */
  modelLoad: channel("anneal:model:load"),
  /** `{ id, fraction, bytes }`, while weights are read: 0 to 1, of how many bytes */
  modelProgress: channel("anneal:model:progress"),
  /** `{ path, fraction, bytes }`, while a whole model is written: 0 to 1, of how many bytes */
  exportProgress: channel("anneal:export:progress"),
  /** `{ modelId, step }`, once it can be served */
  checkpoint: channel("anneal:checkpoint"),
  /** `{ modelId, step }` */
  adapterLoad: channel("anneal:adapter:load"),
};
