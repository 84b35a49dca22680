/**
 * Terms of a text: words (unigrams) and pairs of neighbours (bigrams), and the vocabulary that the training texts have.
 * Letters are those of ASCII and everything beyond it, and only A to Z become small, so no table of Unicode, which
 * differs between releases of Node.js, decides a number. Pure.
 */

export const termKinds = ["unigrams", "bigrams", "both"] as const;
export type TermKind = (typeof termKinds)[number];

/** The words of a text: runs of letters, digits and apostrophes. */
export function wordsOf(text: string): readonly string[] {
  const small = text.replace(/[A-Z]/g, (letter) => String.fromCharCode(letter.charCodeAt(0) + 32));
  return small.match(/[a-z0-9'\u0080-\uffff]+/g) ?? [];
}

/** Counts how often each term is in a text. A bigram is two words with a space between them. */
export function termsOf(text: string, kind: TermKind): ReadonlyMap<string, number> {
  const words = wordsOf(text);
  const counts = new Map<string, number>();
  const add = (term: string): void => {
    counts.set(term, (counts.get(term) ?? 0) + 1);
  };
  words.forEach((word, index) => {
    if (kind !== "bigrams") add(word);
    const next = words[index + 1];
    if (kind !== "unigrams" && next !== undefined) add(`${word} ${next}`);
  });
  return counts;
}

/** The `limit` terms that are in most texts, and in at least `minTexts`; of equals the first by its UTF-16 units. */
export function vocabularyOf(
  texts: readonly ReadonlyMap<string, number>[],
  { limit, minTexts }: { readonly limit: number; readonly minTexts: number },
): readonly string[] {
  const counts = new Map<string, number>();
  for (const terms of texts) for (const term of terms.keys()) counts.set(term, (counts.get(term) ?? 0) + 1);
  return [...counts]
    .filter(([, count]) => count >= minTexts)
    .sort(([a, many], [b, others]) => others - many || (a < b ? -1 : 1))
    .slice(0, limit)
    .map(([term]) => term);
}
