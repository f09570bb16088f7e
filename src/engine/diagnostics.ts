import { channel } from "node:diagnostics_channel";

/** What the engine publishes on `node:diagnostics_channel`; messages are plain objects. */
export const diagnostics = {
  /** `{ home }` */
  engineOpen: channel("anneal:engine:open"),
  /** `{ home }` */
  engineClose: channel("anneal:engine:close"),
  /** `{ id, folder, dtype, bytes, kvPages, seconds }` */
  modelLoad: channel("anneal:model:load"),
  /** `{ modelId, step }`, once it can be served */
  checkpoint: channel("anneal:checkpoint"),
  /** `{ modelId, step }` */
  adapterLoad: channel("anneal:adapter:load"),
};
