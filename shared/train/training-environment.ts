/**
 * The environment of a training as records keep it (MM1). A finished training and a training on this machine
 * give the same fields, so that they can be compared.
 */
import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { defined } from "../defined.js";
import { captureNodeEnvironment, loadedLibraries } from "../model/node-environment.js";
import type { Environment, EnvironmentFacts } from "../model/environment.js";
import { engineThreads } from "./backends/capability.js";
import { chooseBackend } from "./backends/choose.js";
import { builtInEngineFolder, engineIdOfFolder } from "./engine-folder.js";
import type { TrainingResult } from "./training.js";

/** The environment in which a training was done on this machine, from its result. @param known facts of its backend */
export function environmentOfTraining(
  result: Pick<TrainingResult, "engine" | "backend" | "provenance">,
  stemma: string,
  known: Partial<EnvironmentFacts> = {},
): Environment {
  const { threads } = (result.provenance["environment"] ?? {}) as { readonly threads?: unknown };
  return captureNodeEnvironment({
    backend: result.backend.backend,
    stemma,
    engine: result.engine,
    threads: typeof threads === "number" ? threads : 1,
    ...engineProcess(),
    ...known,
  });
}

/** The environment of a training on this machine now; without an engine where the bundle is not built. */
export async function environmentForTraining(
  stemma: string,
  threads = engineThreads(Infinity, availableParallelism()),
): Promise<Environment> {
  const engine = await engineIdOfFolder(builtInEngineFolder()).catch(() => undefined);
  return captureNodeEnvironment({
    backend: chooseBackend({}).backend,
    stemma,
    ...defined({ engine }),
    threads,
    ...engineProcess(),
  });
}

/** The backends that the engine's program registers, the one that trains first. */
const engineBackends = ["wasm", "cpu"];

/** Facts of the engine's process: the bundle's libraries, and those of this process, which runs the same program. */
function engineProcess(): Pick<EnvironmentFacts, "libraries" | "loadOrder" | "backendOrder"> {
  return {
    libraries: bundledLibraries(),
    loadOrder: loadedLibraries().join(", "),
    backendOrder: engineBackends.join(", "),
  };
}

/** Versions of the libraries in the engine bundle, as its build wrote them; none where it is not built. */
function bundledLibraries(): Record<string, string> {
  try {
    const text = readFileSync(join(builtInEngineFolder(), "libraries.json"), "utf8");
    return JSON.parse(text) as Record<string, string>;
  } catch {
    return {};
  }
}
