/**
 * Items at hand as an asynchronous sequence, for interfaces whose items usually come from a file or socket.
 */
export function asyncIterableOf<T>(items: Iterable<T>): AsyncIterable<T> {
  return {
    [Symbol.asyncIterator]() {
      const iterator = items[Symbol.iterator]();
      return { next: () => Promise.resolve(iterator.next()) };
    },
  };
}
