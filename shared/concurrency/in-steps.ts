/** Works on long lists in steps, between which the event loop takes its turn. */

/** Items of one step: with the most costly work per item, a step takes some ten milliseconds. */
export const itemsPerStep = 1000;

/** The items in their order, at most `itemsPerStep` of them between two turns of the event loop. */
export async function* inSteps<Item>(items: Iterable<Item>): AsyncGenerator<Item, void, undefined> {
  let count = 0;
  for (const item of items) {
    if (++count % itemsPerStep === 0) await nextTurn();
    yield item;
  }
}

/** Resolves when the event loop has had its turn: what waits for it (requests, files, timers) was served. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

/** A turn after a pass over a whole list that cannot be stopped in the middle; none where the list is a step. */
export async function turnAfter({ length }: { readonly length: number }): Promise<void> {
  if (length > itemsPerStep) await nextTurn();
}
