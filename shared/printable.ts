/** Text for people: cleaned, where it comes from files, devices and clients, so that a terminal may show it. Pure. */

/**
 * Control characters except line feeds; those that change the direction of text or are not seen, by which two names
 * that differ look alike; and spaces other than the plain one.
 */
const unprintable = /(?!\n)\p{Cc}|\p{Cf}|\p{Cs}|\p{Zl}|\p{Zp}|\p{Default_Ignorable_Code_Point}|(?! )\p{Zs}/gu;
/** Escapes characters that control a terminal ("\u{1b}") or are not seen: names come from files and devices. */
export function printable(text: string): string {
  return text.replace(unprintable, (character) => `\\u{${character.codePointAt(0)?.toString(16)}}`);
}

/** A number of things in words: "1 version", "3 versions". */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}
