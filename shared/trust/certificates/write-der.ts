/** Writes DER (ITU-T X.690), as much of it as a certificate needs. Pure. */

/** A value of this tag; the contents follow each other. */
export function der(tag: number, ...contents: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(contents);
  return Buffer.concat([Buffer.of(tag), lengthOf(content.length), content]);
}

function lengthOf(length: number): Buffer {
  if (length < 0x80) return Buffer.of(length);
  const hex = length.toString(16);
  const bytes = Buffer.from(hex.length % 2 === 0 ? hex : `0${hex}`, "hex");
  return Buffer.concat([Buffer.of(0x80 | bytes.length), bytes]);
}

/** An OBJECT IDENTIFIER, such as "2.5.4.3". */
export function derObjectId(text: string): Buffer {
  const [first = 0, second = 0, ...rest] = text.split(".").map(Number);
  return der(0x06, Buffer.from([first * 40 + second, ...rest].flatMap((part) => base128(part))));
}

function base128(part: number): readonly number[] {
  const digits = [part & 0x7f];
  for (let left = part >>> 7; left > 0; left >>>= 7) digits.unshift((left & 0x7f) | 0x80);
  return digits;
}
