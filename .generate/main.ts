// `npm run generate`: writes what is made of the schemas.

import { writeFileSync } from "node:fs";
import { generatedFiles } from "./files.js";

for (const [path, text] of generatedFiles()) writeFileSync(path, text);
