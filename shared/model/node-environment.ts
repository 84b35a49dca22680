/**
 * Reads this process's environment from Node. The thin shell of environment.ts: called by composition roots
 * only.
 */
import { arch, cpus, release, totalmem, type } from "node:os";
import type { Environment } from "./environment.js";
import { captureEnvironment, type EnvironmentFacts } from "./environment.js";

/**
 * What Node knows of itself and the machine, and beside it what only the caller knows (Stemma's version,
 * backend, engine, GPU).
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
