// Every command there is, in the order in which help lists them.

import { bench } from "./bench.js";
import { build } from "./build.js";
import { chat } from "./chat.js";
import type { Command, CommandGroup } from "./command.js";
import { demo } from "./demo.js";
import { devices } from "./devices.js";
import { doctor } from "./doctor.js";
import { exportModel } from "./export.js";
import { home } from "./home.js";
import { keys } from "./keys.js";
import { models } from "./models.js";
import { publish } from "./publish.js";
import { pull } from "./pull.js";
import { runs } from "./runs.js";
import { serve } from "./serve.js";
import { train } from "./train.js";

export const commands: readonly (Command | CommandGroup)[] = [
  serve,
  chat,
  demo,
  train,
  models,
  pull,
  exportModel,
  publish,
  runs,
  bench,
  home,
  devices,
  doctor,
  keys,
  build,
];
