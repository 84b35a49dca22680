/**
 * Keeps lists of numbers with their best first, as heaps of eight children: adding the best of a million costs seven
 * comparisons, and the second best is among the first nine. Any number can be removed at its place.
 */
import type { NumberLists } from "./number-lists.js";

const children = 8;

export interface BestFirstOrder {
  /** A total order: of two different numbers exactly one is better. */
  isBetter(a: number, b: number): boolean;
  /** Notes that a number is now at this place of a list. */
  placed(list: number, value: number, at: number): void;
}

export class BestFirstLists {
  readonly #lists: NumberLists;
  readonly #order: BestFirstOrder;

  constructor(lists: NumberLists, order: BestFirstOrder) {
    this.#lists = lists;
    this.#order = order;
  }

  add(list: number, value: number): void {
    this.#lists.push(list, value);
    this.#up(list, this.#lists.length(list) - 1, value);
  }

  /** Removes the number at a place. Comparisons see what is left only. */
  removeAt(list: number, at: number): void {
    const last = this.#lists.pop(list);
    if (at === this.#lists.length(list)) return;
    this.#put(list, at, last);
    this.changed(list, at);
  }

  /** Puts a number that became better or worse where it belongs. */
  changed(list: number, at: number): void {
    const value = this.#lists.get(list, at);
    if (this.#up(list, at, value) === at) this.#down(list, at, value);
  }

  /** Puts all numbers of a list in order. */
  order(list: number): void {
    const length = this.#lists.length(list);
    for (let at = Math.floor((length - 2) / children); at >= 0; at--)
      this.#down(list, at, this.#lists.get(list, at));
  }

  /** The second best number; -1 where there is only one. */
  second(list: number): number {
    const next = this.#bestChild(list, 0);
    return next < 0 ? -1 : this.#lists.get(list, next);
  }

  #put(list: number, at: number, value: number): void {
    this.#lists.set(list, at, value);
    this.#order.placed(list, value, at);
  }

  #up(list: number, from: number, value: number): number {
    let at = from;
    while (at > 0) {
      const above = Math.floor((at - 1) / children);
      const other = this.#lists.get(list, above);
      if (!this.#order.isBetter(value, other)) break;
      this.#put(list, at, other);
      at = above;
    }
    this.#put(list, at, value);
    return at;
  }

  #down(list: number, from: number, value: number): void {
    let at = from;
    for (let next = this.#bestChild(list, at); next >= 0; next = this.#bestChild(list, at)) {
      const other = this.#lists.get(list, next);
      if (!this.#order.isBetter(other, value)) break;
      this.#put(list, at, other);
      at = next;
    }
    this.#put(list, at, value);
  }

  #bestChild(list: number, at: number): number {
    const end = Math.min(children * (at + 1) + 1, this.#lists.length(list));
    let best = -1;
    for (let next = children * at + 1; next < end; next++)
      if (best < 0 || this.#order.isBetter(this.#lists.get(list, next), this.#lists.get(list, best)))
        best = next;
    return best;
  }
}
