// Writes the OpenAPI document, which travels in the package, into the file that is named.

import { writeFileSync } from "node:fs";
import { httpDocument } from "./http.js";

writeFileSync(process.argv[2]!, `${JSON.stringify(httpDocument())}\n`);
