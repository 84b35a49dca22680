/**
 * One lock, two ways to hold it: many commits of references at once, or one collection alone. First come,
 * first served, so that neither starves.
 */

export class ReferenceLock {
  #sharing = 0;
  #alone = false;
  readonly #waiting: { readonly alone: boolean; start(): void }[] = [];

  /** Runs `action` together with others that share. */
  shared<T>(action: () => Promise<T>): Promise<T> {
    return this.#run(false, action);
  }
  /** Runs `action` while nobody else holds the lock. */
  exclusive<T>(action: () => Promise<T>): Promise<T> {
    return this.#run(true, action);
  }

  async #run<T>(alone: boolean, action: () => Promise<T>): Promise<T> {
    await new Promise<void>((resolve) => {
      this.#waiting.push({ alone, start: resolve });
      this.#admit();
    });
    try {
      return await action();
    } finally {
      if (alone) this.#alone = false;
      else this.#sharing--;
      this.#admit();
    }
  }

  #admit(): void {
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      if (this.#alone || (next.alone && this.#sharing > 0)) return;
      if (next.alone) this.#alone = true;
      else this.#sharing++;
      this.#waiting.shift();
      next.start();
    }
  }
}
