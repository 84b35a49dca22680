/** Checks a whole journal, fact by fact, against heads of it that somebody kept. Pure. */
import { hashBytes } from "../tensor/hash.js";
import { toHash } from "./merkle-log.js";
import type { JournalHead } from "./journal.js";
import { firstChain, nextChain } from "./chain.js";
import { logLeaf } from "./merkle-log.js";
import { MerkleTree } from "./merkle-tree.js";

export class JournalCheck<Head extends JournalHead> {
  readonly #tree = new MerkleTree({ level: 1 });
  readonly #heads = new Map<number, Head[]>();
  readonly #different: Head[] = [];
  #chain = hashBytes(firstChain);

  /** @param heads in any order; signatures are the caller's to check */
  constructor(heads: readonly Head[]) {
    for (const head of heads) this.#heads.set(head.length, [...(this.#heads.get(head.length) ?? []), head]);
    this.#compare();
  }

  /** Number of facts so far. */
  get length(): number {
    return this.#tree.length;
  }

  /** The next fact, as it is in the journal. */
  add(entry: Uint8Array): void {
    this.#chain = nextChain(this.#chain, entry);
    this.#tree.append(logLeaf(entry));
    this.#compare();
  }

  /** Returns, after the last fact, the heads that are not of this journal, among them those of a longer one. */
  different(): readonly Head[] {
    const longer = [...this.#heads].flatMap(([length, heads]) => (length > this.length ? heads : []));
    return [...this.#different, ...longer].sort((a, b) => a.length - b.length);
  }

  #compare(): void {
    for (const head of this.#heads.get(this.length) ?? [])
      if (head.root !== this.#tree.root() || head.chain !== toHash(this.#chain)) this.#different.push(head);
  }
}
