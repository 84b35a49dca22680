/** The files of a process that can be killed: the disk stays, pending operations never complete. */
import type { Files } from "../../../shared/ports.js";

export interface KillableProcess {
  isRunning: boolean;
}

/** The files as one process sees them: once it no longer runs, no pending operation reaches the disk. */
export function filesOfProcess(files: Files, owner: KillableProcess): Files {
  const forward = <T extends object>(inner: T): T =>
    new Proxy(inner, {
      get: (target, name) => {
        const value = Reflect.get(target, name) as unknown;
        if (typeof value !== "function") return value;
        return (...given: unknown[]) => {
          if (!owner.isRunning) return new Promise(() => undefined);
          const result = Reflect.apply(value, target, given) as unknown;
          if (!(result instanceof Promise)) return result;
          return result.then((resolved: unknown) => {
            if (!owner.isRunning) return new Promise(() => undefined);
            return name === "open" ? forward(resolved as object) : resolved;
          });
        };
      },
    });
  return forward(files);
}
