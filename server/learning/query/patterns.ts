/**
 * Patterns on names: SQL's `like` (% any characters, _ one) and selectors of layers (* any characters, ? one, [1,3,5]
 * one of a class). A selector may keep what was matched: "conv*($1)". A match takes at most as many steps as both have
 * characters, multiplied. Pure.
 */

type Piece =
  | { readonly kind: "literal"; readonly character: string }
  | { readonly kind: "one"; readonly fits: (character: string) => boolean }
  | { readonly kind: "any" };

export interface Pattern {
  readonly pieces: readonly Piece[];
  /** Number of a capture → index of the piece whose match it is. */
  readonly captures: ReadonlyMap<number, number>;
}

/** Matched texts by the numbers of their captures. */
export type Captures = ReadonlyMap<number, string>;

export const maxPatternCharacters = 256;

/** @param fail is called with the reason where the pattern cannot be read */
export function likePattern(text: string, fail: Fail): Pattern {
  return patternOf(text, { any: "%", one: "_", hasClasses: false }, fail);
}

/** @param fail is called with the reason where the selector cannot be read */
export function selectorPattern(text: string, fail: Fail): Pattern {
  return patternOf(text, { any: "*", one: "?", hasClasses: true }, fail);
}

/** Characters that every match begins with. */
export function prefixOf({ pieces }: Pattern): string {
  let prefix = "";
  for (const piece of pieces) {
    if (piece.kind !== "literal") break;
    prefix += piece.character;
  }
  return prefix;
}

/** The selector in which $1 to $9 stand for what was captured, as it is. */
export function withCaptures(text: string, captures: Captures): string {
  return text.replace(/\$([1-9])/g, (_, number: string) =>
    (captures.get(Number(number)) ?? "").replace(/[\\*?[\]()]/g, "\\$&"),
  );
}

/** Numbers of the captures that a text uses. */
export function usedCaptures(text: string): readonly number[] {
  return [...text.matchAll(/\$([1-9])/g)].map(([, number]) => Number(number));
}

type Fail = (reason: string) => never;

interface Dialect {
  readonly any: string;
  readonly one: string;
  /** True if there are captures too. */
  readonly hasClasses: boolean;
}

function patternOf(text: string, { any, one, hasClasses }: Dialect, fail: Fail): Pattern {
  const characters = [...text];
  if (characters.length > maxPatternCharacters)
    fail(`a pattern has at most ${maxPatternCharacters} characters`);
  const pieces: Piece[] = [];
  const captures = new Map<number, number>();
  for (let at = 0; at < characters.length; at++) {
    const character = characters[at] as string;
    const [, capture] = (hasClasses && /^\(\$([1-9])\)$/.exec(characters.slice(at, at + 4).join(""))) || [];
    if (capture !== undefined) {
      const isMisplaced = (pieces.at(-1)?.kind ?? "literal") === "literal" || captures.has(Number(capture));
      if (isMisplaced) fail(`($${capture}) does not stand once, and directly after *, ? or a class`);
      captures.set(Number(capture), pieces.length - 1);
      at += 3;
    } else if (character === any) pieces.push({ kind: "any" });
    else if (character === one) pieces.push({ kind: "one", fits: () => true });
    else if (character === "[" && hasClasses) {
      const end = characters.indexOf("]", at + 1);
      if (end < 0) fail('"]" is missing in this selector');
      pieces.push({ kind: "one", fits: classOf(characters.slice(at + 1, end)) });
      at = end;
    } else {
      const isEscape = character === "\\" && at + 1 < characters.length;
      pieces.push({ kind: "literal", character: isEscape ? (characters[++at] as string) : character });
    }
  }
  return { pieces, captures };
}

/** A class lists characters and ranges such as a-z; with ! in front it is all others. A comma is one of them. */
function classOf(listed: readonly string[]): (character: string) => boolean {
  const isNegated = listed[0] === "!";
  const members = isNegated ? listed.slice(1) : listed;
  const singles = new Set<string>();
  const ranges: (readonly [string, string])[] = [];
  for (let at = 0; at < members.length; at++) {
    const [from, dash, to] = members.slice(at, at + 3);
    if (from === undefined) break;
    if (dash === "-" && to !== undefined) {
      ranges.push([from, to]);
      at += 2;
    } else singles.add(from);
  }
  return (character) =>
    (singles.has(character) || ranges.some(([from, to]) => from <= character && character <= to)) !==
    isNegated;
}

/** The captures, where the text matches; * takes as little as fits. Undefined where it does not match. */
export function matchOf({ pieces, captures }: Pattern, text: string): Captures | undefined {
  const characters = [...text];
  /** The first character of each piece's match. */
  const starts: number[] = [];
  let [at, piece] = [0, 0];
  let [lastAny, retryAt] = [-1, 0];
  while (at < characters.length || piece < pieces.length) {
    const wanted = pieces[piece];
    const character = characters[at];
    if (wanted?.kind === "any") {
      starts[piece] = at;
      [lastAny, retryAt] = [piece++, at];
    } else if (wanted !== undefined && character !== undefined && fits(wanted, character)) {
      starts[piece++] = at++;
    } else if (lastAny >= 0 && retryAt < characters.length) {
      // The last * takes one character more.
      [at, piece] = [++retryAt, lastAny + 1];
    } else return undefined;
  }
  starts[pieces.length] = characters.length;
  return new Map(
    [...captures].map(([number, index]) => [
      number,
      characters.slice(starts[index], starts[index + 1]).join(""),
    ]),
  );
}

function fits(piece: Exclude<Piece, { readonly kind: "any" }>, character: string): boolean {
  return piece.kind === "literal" ? piece.character === character : piece.fits(character);
}
