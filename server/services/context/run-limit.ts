/** Limits how many works of one kind run on a home at the same time. */
import { tooManyRunning } from "./context-errors.js";
import type { OperationsContext } from "./operations-context.js";

type HomeContext = Pick<OperationsContext, "home">;

export interface RunLimit {
  /** Runs the work. @throws QUOTA_EXCEEDED where the maximum number is running already */
  <T>(context: HomeContext, work: () => Promise<T>): Promise<T>;
  /** Resolves when one more may run, or when `signal` aborts. Another caller may be faster. */
  whenFree(context: HomeContext, signal: AbortSignal): Promise<void>;
}

/**
 * @param kind what runs, in the plural, for the error
 * @param instead what the caller can do but wait, for the error
 */
export function createRunLimit(kind: string, maxRunning: number, instead = ""): RunLimit {
  const running = new WeakMap<OperationsContext["home"], number>();
  const waiting = new Set<() => void>();
  const isFree = ({ home }: HomeContext): boolean => (running.get(home) ?? 0) < maxRunning;
  const run = async <T>(context: HomeContext, work: () => Promise<T>): Promise<T> => {
    const { home } = context;
    const now = running.get(home) ?? 0;
    if (!isFree(context)) throw tooManyRunning(kind, maxRunning, instead, now);
    running.set(home, now + 1);
    try {
      return await work();
    } finally {
      running.set(home, (running.get(home) ?? 1) - 1);
      for (const wake of [...waiting]) wake();
    }
  };
  const whenFree = (context: HomeContext, signal: AbortSignal): Promise<void> =>
    new Promise((resolve) => {
      const check = (): void => {
        if (!signal.aborted && !isFree(context)) return;
        waiting.delete(check);
        signal.removeEventListener("abort", check);
        resolve();
      };
      waiting.add(check);
      signal.addEventListener("abort", check, { once: true });
      check();
    });
  return Object.assign(run, { whenFree });
}
