/** Shares fsyncs: calls that arrive while one is running share the next one. */

/**
 * Returns a function that resolves once an fsync that started after its call has ended. All calls that share
 * a failing fsync reject; later calls start a new one.
 */
export function sharedSync(sync: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | undefined;
  let next: Promise<void> | undefined;
  const start = (): Promise<void> => {
    next = undefined;
    const current = sync().finally(() => {
      if (running === current) running = undefined;
    });
    running = current;
    return current;
  };
  return () => {
    if (next !== undefined) return next;
    if (running === undefined) return start();
    next = running.then(start, start);
    return next;
  };
}
