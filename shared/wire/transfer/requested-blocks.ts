/** The blocks that a receiver has requested and not received yet. Pure. */

/** A request counts as lost once this many later ones were answered. */
const overtakenLimit = 3;

interface Request {
  readonly order: number;
  overtaken: number;
}

export class RequestedBlocks {
  readonly #requests = new Map<number, Request>();
  #order = 0;

  get count(): number {
    return this.#requests.size;
  }
  has(index: number): boolean {
    return this.#requests.has(index);
  }
  add(index: number): void {
    this.#requests.set(index, { order: this.#order++, overtaken: 0 });
  }
  /**
   * Removes a block that arrived. Requests are usually answered in order: one that was overtaken by several
   * later answers is removed too, so that it is requested again immediately.
   */
  answered(index: number): void {
    const answered = this.#requests.get(index);
    if (answered === undefined) return;
    this.#requests.delete(index);
    for (const [earlier, request] of this.#requests) {
      if (request.order < answered.order && ++request.overtaken >= overtakenLimit)
        this.#requests.delete(earlier);
    }
  }
  delete(index: number): void {
    this.#requests.delete(index);
  }
  clear(): void {
    this.#requests.clear();
  }
}
