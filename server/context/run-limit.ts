/** Limits how many works of one kind run on a home at the same time. */
import { StemmaError } from "../../shared/errors.js";
import type { OperationsContext } from "./operations-context.js";

/** Runs the work. @throws QUOTA_EXCEEDED where the maximum number is running already */
export type RunLimit = <T>(context: Pick<OperationsContext, "home">, work: () => Promise<T>) => Promise<T>;

/** @param kind what runs, in the plural, for the error */
export function createRunLimit(kind: string, maxRunning: number): RunLimit {
  const running = new WeakMap<OperationsContext["home"], number>();
  return async ({ home }, work) => {
    const now = running.get(home) ?? 0;
    if (now >= maxRunning)
      throw new StemmaError(
        "QUOTA_EXCEEDED",
        `The limit of ${kind} that run at the same time is ${maxRunning}. Try again when one has ended.`,
        { running: now },
      );
    running.set(home, now + 1);
    try {
      return await work();
    } finally {
      running.set(home, (running.get(home) ?? 1) - 1);
    }
  };
}
