// Prints the OpenAPI document, which travels in the package as `openapi.json`.

import { httpDocument } from "./http.js";

process.stdout.write(`${JSON.stringify(httpDocument())}\n`);
