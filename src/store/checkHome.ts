import { existsSync } from "node:fs";
import { join, relative, resolve, sep } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { HomeProblem, HomeReport } from "../types/home.js";
import { verifyChecksums } from "./checksums.js";
import { homeFiles } from "./homeFiles.js";
import { databaseError, knownContent, openForReading, problemOf, tablesOf } from "./openedHome.js";
import { quarantined, unknownPaths, wasCutOff } from "./sweep.js";

/** In which what is being written gets its row, in milliseconds. */
const WRITTEN_WITHIN = 1000;

/** See homes.ts. */
export async function checkHome(home: string): Promise<HomeReport> {
  const folder = resolve(home);
  const database = openForReading(folder);
  try {
    const tables = tablesOf(database, folder);
    const files = homeFiles(folder);
    const problems: HomeProblem[] = [];
    for (const reason of database.pragma("integrity_check") as { integrity_check: string }[]) {
      if (reason.integrity_check === "ok") continue;
      problems.push({ path: "anneal.db", kind: "damaged", reason: reason.integrity_check });
    }
    if ((database.pragma("foreign_key_check") as unknown[]).length > 0) {
      problems.push({ path: "anneal.db", kind: "damaged", reason: "rows refer to others that are not there" });
    }
    const checkpoints = tables.checkpoints.all();
    for (const { modelId, step } of checkpoints) {
      const path = files.checkpointFolder(modelId, step);
      try {
        await verifyChecksums(path);
      } catch (error) {
        // It may have been deleted meanwhile.
        if (tables.checkpoints.get(modelId, step)) problems.push(problemOf(folder, relative(folder, path), error));
      }
    }
    for (const { id, name } of tables.savedModels.list()) {
      const path = files.savedModelFolder(id);
      try {
        await verifyChecksums(path);
      } catch (error) {
        // It may have been replaced meanwhile.
        if (tables.savedModels.find(name)?.id === id) problems.push(problemOf(folder, relative(folder, path), error));
      }
    }
    const artifacts = [...tables.artifacts.ids()].map((id) => join("artifacts", id));
    const jobs = tables.jobs.unfinished().map(({ id }) => join("jobs", id));
    for (const path of [...artifacts, ...jobs]) {
      const [, id] = path.split(sep) as [string, string];
      if (existsSync(join(folder, path)) || tables.artifacts.isThere(id)) continue;
      const isWanted = tables.artifacts.ids().has(id) || isUnfinished(path);
      if (isWanted) problems.push({ path, kind: "missing", reason: "is missing" });
    }
    problems.push(...(await unknown()));
    return {
      home: folder,
      models: tables.models.list().length,
      checkpoints: checkpoints.length,
      artifacts: artifacts.length,
      jobs: jobs.length,
      problems,
      quarantined: quarantined(folder),
    };

    function isUnfinished(path: string): boolean {
      return tables.jobs.unfinished().some(({ id }) => path === join("jobs", id));
    }

    async function unknown(): Promise<HomeProblem[]> {
      const known = knownContent(tables);
      const found = [...unknownPaths(folder, known)];
      if (found.length === 0) return [];
      await sleep(WRITTEN_WITHIN);
      const still = new Set(unknownPaths(folder, known));
      return found
        .filter((path) => still.has(path))
        .map((path) => ({ path, kind: "unknown", reason: whyUnknown(join(folder, path)) }));
    }
  } catch (error) {
    throw databaseError(folder, error);
  } finally {
    database.close();
  }
}

/** What the database does not know, a process that was ended left before anybody was told of it, or it is another home's. */
const whyUnknown = (path: string): string =>
  wasCutOff(path)
    ? "its writing was cut off before it was acknowledged; the next opening removes it"
    : "the database does not know it: its writing was cut off before it was acknowledged, or it is of another database; the next opening moves it to quarantine, from where it comes back when it is known";
