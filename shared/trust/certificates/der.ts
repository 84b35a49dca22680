/**
 * Reads DER (ITU-T X.690), as much of it as certificates and revocation lists need. Each length is checked against the
 * bytes that are there before anything is read. Pure.
 */
import { StemmaError } from "../../errors.js";

export interface DerValue {
  readonly tag: number;
  /** The bytes with tag and length. */
  readonly bytes: Uint8Array;
  readonly content: Uint8Array;
}

/** Universal tags (X.680, 8.6); SEQUENCE and SET with the bit for constructed values. */
export const derTags = {
  boolean: 0x01,
  integer: 0x02,
  bitString: 0x03,
  octetString: 0x04,
  objectId: 0x06,
  utf8String: 0x0c,
  printableString: 0x13,
  ia5String: 0x16,
  utcTime: 0x17,
  generalizedTime: 0x18,
  sequence: 0x30,
  set: 0x31,
} as const;

function malformed(why: string): StemmaError {
  return new StemmaError(
    "CERTIFICATE_REFUSED",
    `The bytes are not DER of a certificate or revocation list: ${why}. Export the file again where it was made.`,
  );
}

/** @throws CERTIFICATE_REFUSED */
function valueAt(bytes: Uint8Array, at: number): DerValue {
  const [tag, first] = [bytes[at], bytes[at + 1]];
  if (tag === undefined || first === undefined) throw malformed("they end too early");
  if ((tag & 0x1f) === 0x1f) throw malformed("a tag is longer than one byte");
  let length = first;
  let begin = at + 2;
  if (first >= 0x80) {
    const count = first & 0x7f;
    if (count === 0 || count > 4) throw malformed("a length is indefinite or too large");
    length = 0;
    for (let index = 0; index < count; index++) length = length * 256 + (bytes[begin + index] ?? 0);
    begin += count;
    if (length < 0x80 || length < 256 ** (count - 1)) throw malformed("a length is longer than it has to be");
  }
  const end = begin + length;
  if (end > bytes.length) throw malformed("they end too early");
  return { tag, bytes: bytes.subarray(at, end), content: bytes.subarray(begin, end) };
}

/** The values that follow each other in these bytes, one after the other. @throws CERTIFICATE_REFUSED */
export function* eachDerValue(bytes: Uint8Array): Generator<DerValue> {
  for (let at = 0; at < bytes.length;) {
    const value = valueAt(bytes, at);
    yield value;
    at += value.bytes.length;
  }
}

/** @throws CERTIFICATE_REFUSED where there are more than 1024 */
export function derValues(bytes: Uint8Array): readonly DerValue[] {
  const values: DerValue[] = [];
  for (const value of eachDerValue(bytes)) {
    if (values.length === 1024) throw malformed("a list is too long");
    values.push(value);
  }
  return values;
}

/** The only value in these bytes, which has this tag. @throws CERTIFICATE_REFUSED */
export function onlyDerValue(bytes: Uint8Array, tag: number): DerValue {
  const value = valueAt(bytes, 0);
  if (value.tag !== tag || value.bytes.length !== bytes.length)
    throw malformed("something else is where a value has to be");
  return value;
}

/** The value, where it has this tag. @throws CERTIFICATE_REFUSED */
export function requireTag(value: DerValue | undefined, tag: number): DerValue {
  if (value?.tag !== tag) throw malformed("something else is where a value has to be");
  return value;
}

/** "1.2.840.…" of the content of an OBJECT IDENTIFIER. @throws CERTIFICATE_REFUSED */
export function objectIdOf(content: Uint8Array): string {
  const parts: number[] = [];
  let part = 0;
  for (const byte of content) {
    part = part * 128 + (byte & 0x7f);
    if (part > 2 ** 45) throw malformed("an object identifier is too large");
    if (byte < 0x80) {
      parts.push(part);
      part = 0;
    }
  }
  const [first] = parts;
  if (first === undefined || ((content.at(-1) ?? 0) & 0x80) !== 0)
    throw malformed("an object identifier is cut off");
  const root = Math.min(2, Math.floor(first / 40));
  return [root, first - root * 40, ...parts.slice(1)].join(".");
}

/** Lower-case hex of the content of a positive INTEGER, without leading zeros, as Node prints serial numbers. */
export function integerHex(content: Uint8Array): string {
  const hex = Buffer.from(content)
    .toString("hex")
    .replace(/^(00)+/, "");
  return hex === "" ? "00" : hex;
}

/** Milliseconds since 1970 of a UTCTime or GeneralizedTime (RFC 5280, 4.1.2.5). @throws CERTIFICATE_REFUSED */
export function derTimeMs({ tag, content }: DerValue): number {
  const text = Buffer.from(content).toString("latin1");
  const digits = tag === derTags.utcTime ? 2 : tag === derTags.generalizedTime ? 4 : 0;
  const matched =
    digits > 0 && new RegExp(`^(\\d{${digits}})(\\d\\d)(\\d\\d)(\\d\\d)(\\d\\d)(\\d\\d)Z$`).exec(text);
  if (matched === null || matched === false) throw malformed("a time is not of the form that is allowed");
  const [year = 0, month = 0, ...rest] = matched.slice(1).map(Number);
  const [day = 0, hour = 0, minute = 0, second = 0] = rest;
  const fullYear = digits === 4 ? year : year < 50 ? 2000 + year : 1900 + year;
  return Date.UTC(fullYear, month - 1, day, hour, minute, second);
}
