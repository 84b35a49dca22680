/**
 * A lock that is held by many commits of references together, or by one collection alone. First come, first
 * served, so that neither starves.
 */

export class ReferenceLock {
  #sharedCount = 0;
  #isExclusive = false;
  readonly #waiting: { readonly isExclusive: boolean; start(): void }[] = [];

  /** Runs `action` together with others that share. */
  shared<T>(action: () => Promise<T>): Promise<T> {
    return this.#run(false, action);
  }
  /** Runs `action` while no other action holds the lock. */
  exclusive<T>(action: () => Promise<T>): Promise<T> {
    return this.#run(true, action);
  }

  async #run<T>(isExclusive: boolean, action: () => Promise<T>): Promise<T> {
    await new Promise<void>((resolve) => {
      this.#waiting.push({ isExclusive, start: resolve });
      this.#admit();
    });
    try {
      return await action();
    } finally {
      if (isExclusive) this.#isExclusive = false;
      else this.#sharedCount--;
      this.#admit();
    }
  }

  #admit(): void {
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      if (this.#isExclusive || (next.isExclusive && this.#sharedCount > 0)) return;
      if (next.isExclusive) this.#isExclusive = true;
      else this.#sharedCount++;
      this.#waiting.shift();
      next.start();
    }
  }
}
