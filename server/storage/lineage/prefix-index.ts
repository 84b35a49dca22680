/**
 * Finds the model that has the longest common prefix with an architecture among tens of thousands, without
 * looking at each (EvoStore, EV1). In memory.
 *
 * Models whose layers have the same identities (shared/model/layer-identity.ts) are one group, and each identity
 * has a list of the groups that have it. Common stems are in nearly every group, so a query that walked their
 * lists would cost what the catalog holds. Therefore an identity of more than `maxListed` groups is *common*: it
 * is listed one level up, where the groups are grouped again by their common identities alone. Levels repeat
 * until lists are short.
 *
 * A query goes through its identities from the rarest to the most common. A group that it has not met by then
 * has none of those, so its prefix has at most as many layers as identities are left; once the best prefix is
 * longer than that, the answer is certain.
 */
import type { Hash } from "../../../shared/tensor/tensor.js";
import { compareCandidates, SortedByBest, type PrefixCandidate } from "./prefix-candidates.js";

export interface PrefixMatch<Candidate extends PrefixCandidate> {
  readonly model: Candidate;
  /** Layers of the common prefix. */
  readonly layers: number;
}

/** Levels beyond this would not make lists shorter: the groups have no fewer combinations of identities. */
const maxLevels = 6;

/** Groups of one level that have the same identities. */
interface Group<Candidate extends PrefixCandidate> {
  readonly key: string;
  readonly level: number;
  /** Numbers of the identities, ascending. */
  readonly identities: Int32Array;
  /** Level 0: models; above: the groups of the level below that have these common identities. */
  readonly models: SortedByBest<Candidate, Candidate>;
  readonly members: SortedByBest<Group<Candidate>, Candidate>;
  parent: Group<Candidate> | undefined;
  /** The last query that met this group. */
  query: number;
}

interface Level<Candidate extends PrefixCandidate> {
  readonly groups: Map<string, Group<Candidate>>;
  /** The number of groups that have each identity. */
  readonly counts: number[];
  /** The groups that have each identity; undefined for common identities. */
  readonly lists: (Set<Group<Candidate>> | undefined)[];
}

function bestOf<Candidate extends PrefixCandidate>(group: Group<Candidate>): Candidate {
  return group.level === 0 ? group.models.best() : bestOf(group.members.best());
}

/** An index over models. Each identity of a model is given once; models without any are not found. */
export class PrefixIndex<Candidate extends PrefixCandidate> {
  readonly #maxListed: number;
  /** A common identity of fewer groups comes down again: far below, so that single models do not move it. */
  readonly #minCommon: number;
  readonly #numbers = new Map<Hash, number>();
  readonly #identityOf: (Hash | undefined)[] = [];
  readonly #freeNumbers: number[] = [];
  readonly #levels: Level<Candidate>[] = [];
  readonly #models = new Map<Hash, { readonly group: Group<Candidate>; readonly model: Candidate }>();
  /** Identities that may have become common, or stopped being so: level and number. */
  #unsettled: (readonly [level: number, identity: number])[] = [];
  /** The last query that has each identity. */
  #marks = new Int32Array(1024);
  #query = 0;
  #steps = 0;

  /** @param maxListed groups that an identity may have in a level before it moves one level up */
  constructor({ maxListed = 32 }: { readonly maxListed?: number } = {}) {
    this.#maxListed = maxListed;
    this.#minCommon = Math.floor(maxListed / 4);
  }

  get size(): number {
    return this.#models.size;
  }

  /** Groups that queries have compared so far. @internal Tests count with it. */
  get steps(): number {
    return this.#steps;
  }

  has(id: Hash): boolean {
    return this.#models.has(id);
  }

  /** Adds a model, or replaces the one of its id. */
  add(identities: readonly Hash[], model: Candidate): void {
    this.remove(model.id);
    const numbers = Int32Array.from(new Set(identities), (identity) => this.#numberOf(identity)).sort();
    const group = this.#group(0, numbers);
    this.#change(group, () => group.models.add(model));
    this.#models.set(model.id, { group, model });
    this.#settle();
  }

  /** Returns whether the model was there. */
  remove(id: Hash): boolean {
    const known = this.#models.get(id);
    if (known === undefined) return false;
    const { group, model } = known;
    this.#models.delete(id);
    this.#change(group, () => group.models.remove(model));
    this.#settle();
    return true;
  }

  /** The model with the longest common prefix; undefined where no model has the first layer either. */
  longest(identities: readonly Hash[]): PrefixMatch<Candidate> | undefined {
    this.#query++;
    let left: number[] = [];
    for (const identity of new Set(identities)) {
      const number = this.#numbers.get(identity);
      if (number === undefined) continue;
      this.#marks[number] = this.#query;
      left.push(number);
    }
    let found: { group: Group<Candidate>; layers: number } | undefined;
    let leftCount = left.length;
    for (const { counts, lists } of this.#levels) {
      const listed = left.filter((number) => lists[number] !== undefined);
      listed.sort((a, b) => (counts[a] as number) - (counts[b] as number));
      for (const number of listed) {
        if (found !== undefined && found.layers > leftCount) return this.#match(found);
        for (const group of lists[number] as Set<Group<Candidate>>) found = this.#better(found, group);
        leftCount--;
      }
      left = left.filter((number) => lists[number] === undefined);
    }
    return found === undefined ? undefined : this.#match(found);
  }

  /** Finds the longest match as `longest`, as if there were no model `except`. The index is as before afterwards. */
  longestExcept(except: Hash, identities: readonly Hash[]): PrefixMatch<Candidate> | undefined {
    const known = this.#models.get(except);
    if (known === undefined) return this.longest(identities);
    const own = Array.from(known.group.identities, (number) => this.#identityOf[number] as Hash);
    this.remove(except);
    const found = this.longest(identities);
    this.add(own, known.model);
    return found;
  }

  #match({ group, layers }: { group: Group<Candidate>; layers: number }): PrefixMatch<Candidate> {
    return { model: bestOf(group), layers };
  }

  #better(
    found: { group: Group<Candidate>; layers: number } | undefined,
    group: Group<Candidate>,
  ): { group: Group<Candidate>; layers: number } | undefined {
    if (group.query === this.#query) return found;
    group.query = this.#query;
    if (found !== undefined && group.identities.length < found.layers) return found;
    this.#steps++;
    let layers = 0;
    for (const number of group.identities) if (this.#marks[number] === this.#query) layers++;
    if (found === undefined || layers > found.layers) return { group, layers };
    return layers === found.layers && compareCandidates(bestOf(group), bestOf(found.group)) < 0
      ? { group, layers }
      : found;
  }

  #numberOf(identity: Hash): number {
    const known = this.#numbers.get(identity);
    if (known !== undefined) return known;
    const number = this.#freeNumbers.pop() ?? this.#identityOf.length;
    this.#numbers.set(identity, number);
    this.#identityOf[number] = identity;
    if (number >= this.#marks.length) {
      const marks = new Int32Array(2 * this.#marks.length);
      marks.set(this.#marks);
      this.#marks = marks;
    }
    this.#marks[number] = 0;
    return number;
  }

  #level(level: number): Level<Candidate> {
    return (this.#levels[level] ??= { groups: new Map(), counts: [], lists: [] });
  }

  /** The group of a level with these identities; a new one is linked into lists and the level above. */
  #group(level: number, identities: Int32Array): Group<Candidate> {
    const { groups, counts, lists } = this.#level(level);
    const key = identities.join(" ");
    const known = groups.get(key);
    if (known !== undefined) return known;
    const group: Group<Candidate> = {
      key,
      level,
      identities,
      models: new SortedByBest((model) => model),
      members: new SortedByBest(bestOf),
      parent: undefined,
      query: 0,
    };
    groups.set(key, group);
    for (const identity of identities) {
      const count = (counts[identity] ?? 0) + 1;
      counts[identity] = count;
      if (count === 1) lists[identity] = new Set([group]);
      else {
        lists[identity]?.add(group);
        if (count > this.#maxListed && lists[identity] !== undefined) this.#unsettled.push([level, identity]);
      }
    }
    return group;
  }

  /**
   * Changes what a group holds. Its place among the members of the group above depends on its best model, so it
   * leaves and comes back; an empty group goes.
   */
  #change(group: Group<Candidate>, change: () => void): void {
    this.#leaveParent(group);
    change();
    if (group.models.isEmpty() && group.members.isEmpty()) this.#drop(group);
    else this.#joinParent(group);
  }

  #leaveParent(group: Group<Candidate>): void {
    const { parent } = group;
    if (parent === undefined) return;
    group.parent = undefined;
    this.#change(parent, () => parent.members.remove(group));
  }

  #joinParent(group: Group<Candidate>): void {
    const { lists } = this.#level(group.level);
    const common = group.identities.filter((identity) => lists[identity] === undefined);
    if (common.length === 0) return;
    const parent = this.#group(group.level + 1, common);
    group.parent = parent;
    this.#change(parent, () => parent.members.add(group));
  }

  #drop(group: Group<Candidate>): void {
    const { groups, counts, lists } = this.#level(group.level);
    groups.delete(group.key);
    for (const identity of group.identities) {
      const count = (counts[identity] as number) - 1;
      counts[identity] = count;
      lists[identity]?.delete(group);
      if (lists[identity] === undefined ? count < this.#minCommon : count === 0)
        this.#unsettled.push([group.level, identity]);
    }
  }

  /** Moves identities up that have become common, and down that are no longer. */
  #settle(): void {
    for (let next = this.#unsettled.pop(); next !== undefined; next = this.#unsettled.pop()) {
      const [level, identity] = next;
      const { counts, lists } = this.#level(level);
      const count = counts[identity] as number;
      const listed = lists[identity];
      if (listed !== undefined && count > this.#maxListed && level + 1 < maxLevels) {
        this.#relist(listed, () => (lists[identity] = undefined));
      } else if (listed === undefined && count < this.#minCommon) {
        const groups = this.#groupsWith(level, identity);
        this.#relist(groups, () => (lists[identity] = new Set(groups)));
      }
      if (level === 0 && count === 0) this.#forget(identity);
    }
  }

  #relist(groups: ReadonlySet<Group<Candidate>>, change: () => void): void {
    for (const group of groups) this.#leaveParent(group);
    change();
    for (const group of groups) this.#joinParent(group);
  }

  /** The groups of a level that have an identity. */
  #groupsWith(level: number, identity: number): ReadonlySet<Group<Candidate>> {
    const listed = this.#level(level).lists[identity];
    if (listed !== undefined) return listed;
    const above = this.#groupsWith(level + 1, identity);
    return new Set([...above].flatMap((group) => group.members.all()));
  }

  #forget(identity: number): void {
    const hash = this.#identityOf[identity];
    if (hash === undefined) return;
    this.#numbers.delete(hash);
    this.#identityOf[identity] = undefined;
    this.#freeNumbers.push(identity);
  }
}
