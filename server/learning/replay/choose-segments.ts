/** Chooses the segments of a training that are run again, and tells what such a choice misses. */
import type { Random } from "../../../shared/ports.js";

/** Chooses `count` of the numbers below `of`, each set of them alike, in ascending order. */
export function chooseSegments(random: Random, count: number, of: number): readonly number[] {
  const left = Array.from({ length: of }, (_, index) => index);
  const chosen = Array.from(
    { length: Math.min(count, of) },
    () => left.splice(below(random, left.length), 1)[0] as number,
  );
  return chosen.sort((a, b) => a - b);
}

/** A number below another one, each alike: what does not divide evenly is drawn again. */
function below(random: Random, limit: number): number {
  const end = 2 ** 32 - (2 ** 32 % limit);
  for (;;) {
    const drawn = Buffer.from(random.bytes(4)).readUInt32LE(0);
    if (drawn < end) return drawn % limit;
  }
}

/**
 * The chance that `checked` segments of `of`, chosen without knowing which are wrong, are all right although `wrong`
 * of them are not: hypergeometric.
 */
export function chanceToMiss(
  wrong: number,
  { checked, of }: { readonly checked: number; readonly of: number },
): number {
  let chance = 1;
  for (let each = 0; each < checked; each++) chance *= Math.max(0, of - wrong - each) / (of - each);
  // A product that is too small for a number is not zero.
  return checked <= of - wrong ? Math.max(chance, Number.MIN_VALUE) : 0;
}

/** A smaller chance is not told apart from others. */
const smallest = 1e-9;

/** A chance as "95 of 100" or "1 of 1,024". */
export function describeChance(chance: number): string {
  if (chance <= 0) return "no case";
  if (chance < smallest) return `less than 1 of ${(1 / smallest).toLocaleString("en-US")} cases`;
  if (chance < 0.1) return `1 of ${Math.floor(1 / chance).toLocaleString("en-US")} cases`;
  if (chance > 0.995) return `${Math.floor(chance * 10_000).toLocaleString("en-US")} of 10,000 cases`;
  return `${Math.round(chance * 100)} of 100 cases`;
}

/** The sentence on what escapes a spot check that found nothing. */
export function describeMissed(checked: number, of: number): string {
  if (checked >= of)
    return of === 1 ? "Its only segment was run again." : `All ${of} segments were run again.`;
  const half = Math.ceil(of / 2);
  const missed = (wrong: number): string => describeChance(chanceToMiss(wrong, { checked, of }));
  const one = `Of ${of} segments a single wrong one is missed in ${missed(1)}`;
  return half === 1 ? `${one}.` : `${one}; ${half} wrong ones are missed in ${missed(half)}.`;
}
