/**
 * The tensors that an encoding names: the one place that lists them in their order. Used for tensors in memory, for
 * their ids in packs and messages, and for what a decoder needs. Pure.
 */

/** Max tensors that one encoding is coded against. */
export const maxReferences = 8;
/** Max of them in addition to the base and the one before it. */
export const maxOtherReferences = maxReferences - 2;

/**
 * The references of one encoding, in order: the base; the tensor before the base; others, which are only
 * there together with the first two. All are absent where its own bytes are enough.
 */
export interface Links<Reference> {
  readonly base?: Reference | undefined;
  readonly previous?: Reference | undefined;
  readonly others?: readonly Reference[] | undefined;
}

/** The references that a decoder needs: `others` counts those after the first two. */
export interface NeededReferences {
  readonly base: boolean;
  readonly previous: boolean;
  readonly others?: number;
}

/** Every reference, in order. */
export function listReferences<Reference>({
  base,
  previous,
  others,
}: Links<Reference>): readonly Reference[] {
  if (base === undefined) return previous === undefined ? [] : [previous];
  if (previous === undefined) return [base];
  return others === undefined ? [base, previous] : [base, previous, ...others];
}

/** The first reference as base, the second as the one before it, the rest as others. */
export function linksTo<Reference>([base, previous, ...others]: readonly Reference[]): Links<Reference> {
  return {
    ...(base === undefined ? {} : { base }),
    ...(previous === undefined ? {} : { previous }),
    ...(others.length === 0 ? {} : { others }),
  };
}

/** The links alone, without other members and without absent ones. */
export function linksOf<Reference>(links: Links<Reference>): Links<Reference> {
  return linksTo(listReferences(links));
}

/** Replaces each reference, one after the other; what has no replacement stays absent. */
export async function mapLinks<From, To>(
  { base, previous, others }: Links<From>,
  replace: (reference: From) => Promise<To | undefined>,
): Promise<Links<To>> {
  const ownBase = base === undefined ? undefined : await replace(base);
  const ownPrevious = previous === undefined ? undefined : await replace(previous);
  const ownOthers: To[] = [];
  for (const other of others ?? []) {
    const own = await replace(other);
    if (own !== undefined) ownOthers.push(own);
  }
  return {
    base: ownBase,
    previous: ownPrevious,
    ...(ownOthers.length === 0 ? {} : { others: ownOthers }),
  };
}

/** Counts the references that a decoder needs, from the first. */
export function neededCount({ base, previous, others = 0 }: NeededReferences): number {
  return others > 0 ? 2 + others : previous ? 2 : base ? 1 : 0;
}

/** Returns those of the links that a decoder needs; undefined where one of them is absent. */
export function neededLinks<Reference>(
  links: Links<Reference>,
  needed: NeededReferences,
): Links<Reference> | undefined {
  const count = neededCount(needed);
  const own = links.base === undefined ? [] : listReferences(links);
  return own.length < count ? undefined : linksTo(own.slice(0, count));
}

/** Joins the needs of several encodings. */
export function unionOfNeeds(all: readonly NeededReferences[]): NeededReferences {
  const others = Math.max(0, ...all.map((each) => each.others ?? 0));
  return {
    base: all.some(({ base }) => base),
    previous: all.some(({ previous }) => previous),
    ...(others === 0 ? {} : { others }),
  };
}

export function hasSameLinks<Reference>(a: Links<Reference>, b: Links<Reference>): boolean {
  const [own, other] = [listReferences(a), listReferences(b)];
  return a.base === b.base && own.length === other.length && own.every((each, i) => each === other[i]);
}
