/** Keys of numbered items, of which the largest is known after every change: a tournament tree. */
export class Tournament {
  /** Node i has the children 2i and 2i + 1; the items are the leaves from `#leaves` on. */
  readonly #key: Float64Array;
  readonly #leaves: number;

  /** All keys are 0 at first. */
  constructor(count: number) {
    this.#leaves = 2 ** Math.ceil(Math.log2(Math.max(count, 2)));
    this.#key = new Float64Array(2 * this.#leaves);
  }

  get max(): number {
    return this.#key[1]!;
  }

  /** The first of the items with the largest key. */
  get first(): number {
    let node = 1;
    while (node < this.#leaves)
      node = this.#key[2 * node]! >= this.#key[2 * node + 1]! ? 2 * node : 2 * node + 1;
    return node - this.#leaves;
  }

  set(item: number, key: number): void {
    let node = this.#leaves + item;
    if (this.#key[node] === key) return;
    this.#key[node] = key;
    for (node >>= 1; node > 0; node >>= 1) {
      const larger = Math.max(this.#key[2 * node]!, this.#key[2 * node + 1]!);
      if (this.#key[node] === larger) return;
      this.#key[node] = larger;
    }
  }
}
