/** How many replays run on one home at the same time. */
import { StemmaError } from "../../shared/errors.js";
import type { OperationsContext } from "../context/operations-context.js";

/** A replay takes a processor core for as long as the training took. */
const maxRunning = 1;
const running = new WeakMap<OperationsContext["home"], number>();

/** @throws QUOTA_EXCEEDED where the maximum number is running already */
export async function withinReplayLimit<T>(
  { home }: Pick<OperationsContext, "home">,
  work: () => Promise<T>,
): Promise<T> {
  const now = running.get(home) ?? 0;
  if (now >= maxRunning)
    throw new StemmaError(
      "QUOTA_EXCEEDED",
      `${now} replay is running already, which is the limit. Try again when it has ended.`,
      { running: now },
    );
  running.set(home, now + 1);
  try {
    return await work();
  } finally {
    running.set(home, (running.get(home) ?? 1) - 1);
  }
}
