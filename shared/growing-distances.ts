/** Decides which of the events that repeat are said: at growing distances, so that no number of them fills a log. */

/** True if event number `count` is said: the first, second, fourth, eighth and so on. */
export function isReported(count: number): boolean {
  return Number.isInteger(Math.log2(count));
}
