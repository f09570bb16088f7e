// The OpenAPI document of a server, without one.

import { HttpMetrics } from "../src/server/httpMetrics.js";
import { inferenceRoutes, openRoutes, operationRoutes } from "../src/server/inferenceRoutes.js";
import { messageRoutes } from "../src/server/messageRoutes.js";
import { openApiDocument } from "../src/server/openapi.js";
import { previewRoutes } from "../src/server/previewRoutes.js";
import { responseRoutes } from "../src/server/responseRoutes.js";

export function httpDocument(): object {
  return openApiDocument(
    [
      ...inferenceRoutes,
      ...responseRoutes,
      ...messageRoutes,
      ...previewRoutes,
      ...operationRoutes(() => ({}), new HttpMetrics()),
    ],
    openRoutes,
  );
}
