/**
 * Finds the known name that a new one is probably a slip of: the rule by which lines and fleets are taken for misspelt.
 * Names that differ in a number, a code or a short word are a family (`van-1` and `van-2`, `soh` and `soc`), not slips.
 * Pure.
 */

/** Letters of the shortest word in which another letter is a slip: `soh` and `soc` are two words. */
const minReplaced = 5;
/** Letters of the shortest word in which a letter more, a letter less, or two swapped are a slip. */
const minSlipped = 3;

/** @returns the known name, or undefined where the name is known itself or near to none */
export function nearName(name: string, known: Iterable<string>): string | undefined {
  const names = [...known];
  return names.includes(name) ? undefined : names.find((each) => isNear(name, each));
}

function isNear(a: string, b: string): boolean {
  if (joined(a) === joined(b)) return true;
  const [words, others] = [wordsOf(a), wordsOf(b)];
  if (words.length !== others.length) return false;
  const different = words.flatMap((word, i) =>
    word === others[i] ? [] : [[word, others[i] ?? ""] as const],
  );
  const [pair] = different;
  return different.length === 1 && pair !== undefined && isSlip(...pair);
}

function joined(name: string): string {
  return name.toLowerCase().replace(/[-_.]/gu, "");
}

/** Words of letters, and the numbers and codes between them. */
function wordsOf(name: string): readonly string[] {
  return name.toLowerCase().split(/[-_.]/u);
}

/** True if one of two words is the other with one slip of the keyboard. */
function isSlip(a: string, b: string): boolean {
  const isWord = (text: string): boolean => /^[a-z]+$/u.test(text);
  const [short, long] = a.length <= b.length ? [a, b] : [b, a];
  if (!isWord(a) || !isWord(b) || short.length < minSlipped || long.length - short.length > 1) return false;
  let at = 0;
  while (at < short.length && short[at] === long[at]) at++;
  if (short.length < long.length) return short.slice(at) === long.slice(at + 1);
  if (short.slice(at + 1) === long.slice(at + 1)) return short.length >= minReplaced;
  return (
    short[at] === long[at + 1] && short[at + 1] === long[at] && short.slice(at + 2) === long.slice(at + 2)
  );
}
