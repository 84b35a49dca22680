/** Bounded concurrency. Knows nothing of what is done. */

/**
 * Does `work` for every item, `count` at a time; results in the order of the items. The first error ends it,
 * after what was begun.
 */
export async function mapConcurrent<T, R>(
  items: Iterable<T>,
  count: number,
  work: (item: T) => Promise<R>,
): Promise<R[]> {
  const results: R[] = [];
  const waiting = [...items].entries();
  let failed = false;
  const worker = async (): Promise<void> => {
    for (const [index, item] of waiting) {
      if (failed) return;
      try {
        results[index] = await work(item);
      } catch (error) {
        failed = true;
        throw error;
      }
    }
  };
  const ended = await Promise.allSettled(Array.from({ length: count }, worker));
  for (const one of ended) if (one.status === "rejected") throw one.reason;
  return results;
}
