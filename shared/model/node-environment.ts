/**
 * Reads this process's environment from Node. Only composition roots call it: everything else gets the
 * environment as data.
 */
import { arch, cpus, release, totalmem, type } from "node:os";
import { basename } from "node:path";
import type { Environment } from "./environment.js";
import { captureEnvironment, type EnvironmentFacts } from "./environment.js";

/**
 * Captures what Node reports of itself and the machine, together with fields that only the caller knows
 * (Stemma's version, backend, engine, GPU). The caller's value is used where both have a field.
 */
export function captureNodeEnvironment(known: EnvironmentFacts): Environment {
  return captureEnvironment({
    node: process.version,
    v8: process.versions.v8,
    os: type(),
    kernel: release(),
    arch: arch(),
    cpu: cpus()[0]?.model.trim() ?? "unknown",
    memoryBytes: totalmem(),
    ...known,
  });
}

/** Names of the libraries of this process, in the order in which they were loaded. */
export function loadedLibraries(): string[] {
  // Else the names of all peers are asked for.
  Object.assign(process.report, { excludeNetwork: true });
  const { sharedObjects = [] } = process.report.getReport() as { readonly sharedObjects?: readonly string[] };
  return sharedObjects.map((path) => basename(path));
}
