/** Cleans text from files, devices and clients, so that a terminal may show it. Pure. */

/** Control characters except line feeds, and those that change the direction of text. */
const unprintable = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;
/** Escapes characters that control a terminal ("\u{1b}"): names come from files and devices. */
export function printable(text: string): string {
  return text.replace(unprintable, (character) => `\\u{${character.charCodeAt(0).toString(16)}}`);
}
