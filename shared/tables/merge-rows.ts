/** Goes through sorted rows of several sources at once, in the order of their keys. Pure. */
import type { Row } from "./row.js";

export type SortedRows = Iterator<Row, void, undefined>;

/**
 * The rows of all sources; of rows with one key the one of the last source.
 * @param sources the oldest first, each sorted
 * @param reverse true: each is sorted with the last key first
 */
export function* mergedRows(
  sources: readonly SortedRows[],
  reverse: boolean,
): Generator<Row, void, undefined> {
  const current = sources.map((source) => source.next().value ?? undefined);
  for (;;) {
    let first = -1;
    for (let at = 0; at < current.length; at++) {
      const row = current[at];
      if (row === undefined) continue;
      const order = first === -1 ? -1 : row.key.compare((current[first] as Row).key);
      // The later source's row hides the others.
      if ((reverse ? -order : order) <= 0 || first === -1) first = at;
    }
    if (first === -1) return;
    const row = current[first] as Row;
    for (let at = 0; at < current.length; at++)
      if (current[at]?.key.equals(row.key) === true)
        current[at] = (sources[at] as SortedRows).next().value ?? undefined;
    yield row;
  }
}
