/** What a simulation draws from its seed. Each part draws from a stream of its own. */
import { createHash } from "node:crypto";
import { seededNumbers } from "../../shared/random/seeded-numbers.js";

export class Choice {
  readonly #next: () => number;

  constructor(seed: number, stream: string) {
    this.#next = seededNumbers(createHash("sha256").update(`${seed}/${stream}`).digest().readUInt32LE(0));
  }

  /** Uniform in [0, 1). */
  number(): number {
    return this.#next();
  }
  /** An integer in [0, below). */
  below(below: number): number {
    return Math.floor(this.#next() * below);
  }
  chance(probability: number): boolean {
    return this.#next() < probability;
  }
  between(from: number, to: number): number {
    return from + this.#next() * (to - from);
  }
  /** Undefined where there is nothing to choose from. */
  of<T>(items: readonly T[]): T | undefined {
    return items[this.below(items.length)];
  }
  /** A waiting time whose end does not depend on how long it has lasted. */
  waitMs(meanMs: number): number {
    return -meanMs * Math.log(1 - this.#next());
  }
  /** The bytes of so many 32-bit floats in [-1, 1). */
  floats(count: number): Uint8Array {
    const numbers = Float32Array.from({ length: count }, () => 2 * this.#next() - 1);
    return new Uint8Array(numbers.buffer);
  }
  bytes(count: number): Uint8Array {
    return Uint8Array.from({ length: count }, () => this.below(256));
  }
}
