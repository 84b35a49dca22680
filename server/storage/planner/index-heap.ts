/** A priority queue (a binary heap) of numbers from 0 to `count` − 1, each at most once. */
export class IndexHeap {
  readonly #heap: number[] = [];
  /** Index in the heap of each number; −1 where it is not queued. */
  readonly #heapIndex: Int32Array;

  /** @param precedes whether a comes before b; it must not change for queued numbers except as `raise` says */
  constructor(
    count: number,
    private readonly precedes: (a: number, b: number) => boolean,
  ) {
    this.#heapIndex = new Int32Array(count).fill(-1);
  }

  has(item: number): boolean {
    return this.#heapIndex[item]! >= 0;
  }

  push(item: number): void {
    this.#heap.push(item);
    this.#moveUp(this.#heap.length - 1, item);
  }

  /** Call after a queued number came to precede more of the others. */
  raise(item: number): void {
    this.#moveUp(this.#heapIndex[item]!, item);
  }

  /** Removes and returns the first number; −1 where the queue is empty. */
  pop(): number {
    const heap = this.#heap;
    const first = heap[0];
    if (first === undefined) return -1;
    const last = heap.pop()!;
    this.#heapIndex[first] = -1;
    if (heap.length > 0) this.#moveDown(0, last);
    return first;
  }

  #moveUp(index: number, item: number): void {
    const heap = this.#heap;
    for (let up = (index - 1) >> 1; index > 0 && this.precedes(item, heap[up]!); up = (index - 1) >> 1) {
      this.#setHeap(index, heap[up]!);
      index = up;
    }
    this.#setHeap(index, item);
  }

  #moveDown(index: number, item: number): void {
    const heap = this.#heap;
    for (let down = 2 * index + 1; down < heap.length; down = 2 * index + 1) {
      if (down + 1 < heap.length && this.precedes(heap[down + 1]!, heap[down]!)) down++;
      if (!this.precedes(heap[down]!, item)) break;
      this.#setHeap(index, heap[down]!);
      index = down;
    }
    this.#setHeap(index, item);
  }

  #setHeap(index: number, item: number): void {
    this.#heap[index] = item;
    this.#heapIndex[item] = index;
  }
}
