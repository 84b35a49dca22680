/**
 * The environment of a training, as records keep it (MM1): the same fields whether it was just done or
 * would be done here, so that the two can be compared. A thin shell over Node; decides nothing.
 */
import { createRequire } from "node:module";
import { captureNodeEnvironment } from "../model/node-environment.js";
import type { Environment } from "../model/environment.js";
import { chooseBackend } from "./backends/choose.js";
import { builtInEngineFolder, engineIdOfFolder } from "./train-in-child.js";
import type { TrainingResult } from "./training.js";

/** Where a training was done, from its result. */
export function environmentOfTraining(
  result: Pick<TrainingResult, "engine" | "backend">,
  stemma: string,
  threads = 1,
): Environment {
  return captureNodeEnvironment({
    backend: result.backend.backend,
    stemma,
    engine: result.engine,
    threads,
    libraries: installedLibraries(),
  });
}

/** What a training would have here and now; without an engine where its bundle was not built. */
export async function environmentForTraining(stemma: string, threads = 1): Promise<Environment> {
  const engine = await engineIdOfFolder(builtInEngineFolder()).catch(() => undefined);
  return captureNodeEnvironment({
    backend: chooseBackend({}).backend,
    stemma,
    ...(engine === undefined ? {} : { engine }),
    threads,
    libraries: installedLibraries(),
  });
}

const require = createRequire(import.meta.url);
const libraries = ["@tensorflow/tfjs", "@tensorflow/tfjs-backend-wasm"];

/** Versions of the training libraries; one that is not installed (a bundle) is left out. */
function installedLibraries(): Record<string, string> {
  return Object.fromEntries(
    libraries.flatMap((name) => {
      try {
        return [[name, (require(`${name}/package.json`) as { version: string }).version]];
      } catch {
        return [];
      }
    }),
  );
}
