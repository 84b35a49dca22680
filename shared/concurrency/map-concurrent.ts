/** Maps items by asynchronous work, a bounded number at a time. */
import pMap, { pMapSkip } from "p-map";

/**
 * Calls `work` for every item, at most `concurrency` calls at a time. Returns the results in the order of the
 * items. After the first error no further call starts; that error is thrown once the running calls have ended
 * (p-map alone would throw while they still run, and their files might be removed under them).
 */
export async function mapConcurrent<T, R>(
  items: Iterable<T>,
  concurrency: number,
  work: (item: T) => Promise<R>,
): Promise<R[]> {
  const errors: unknown[] = [];
  const mapper = async (item: T): Promise<R | typeof pMapSkip> => {
    if (errors.length > 0) return pMapSkip;
    try {
      return await work(item);
    } catch (error) {
      errors.push(error);
      return pMapSkip;
    }
  };
  const results = await pMap(items, mapper, { concurrency });
  if (errors.length > 0) throw errors[0];
  return results;
}
