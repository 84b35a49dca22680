/**
 * Scans protobuf bytes before the generated decoder does. It counts fields and bounds the depth without allocating, so
 * that 64 KiB of hostile bytes cannot become megabytes of objects. Knows of an envelope only what counting needs.
 */
import { malformed } from "./fields.js";
import { maxFieldsPerMessage } from "./limits.js";

/** Field numbers of the envelope's header and body (stemma.proto). */
const protocolField = 1;
const firstBody = 10;
const lastBody = 99;
/** A header of five fields, a body, and some fields of later versions. */
const maxEnvelopeFields = 16;

interface Cursor {
  readonly bytes: Uint8Array;
  at: number;
  readonly end: number;
}

/** An unsigned varint; the value is exact below 2^53, else only approximate. */
function varint(cursor: Cursor): number {
  let value = 0;
  for (let shift = 0; shift < 10; shift++) {
    const byte = cursor.at < cursor.end ? cursor.bytes[cursor.at++] : undefined;
    if (byte === undefined) throw malformed("message", "ends inside a number");
    value += (byte & 0x7f) * 2 ** (7 * shift);
    if (byte < 0x80) return value;
  }
  throw malformed("message", "has a number of more than ten bytes");
}

/**
 * Skips a field's value. Returns where a length-delimited one begins, or the value of a varint. Groups, which
 * proto3 does not have, are refused.
 */
function skipValue(cursor: Cursor, wireType: number): { readonly value: number; readonly from: number } {
  const from = cursor.at;
  if (wireType === 0) return { value: varint(cursor), from };
  const length = wireType === 1 ? 8 : wireType === 5 ? 4 : wireType === 2 ? varint(cursor) : -1;
  if (length < 0) throw malformed("message", `has a field of wire type ${wireType}`);
  const start = cursor.at;
  if (length > cursor.end - start) throw malformed("message", "ends inside a field");
  cursor.at = start + length;
  return { value: 0, from: start };
}

function countFields(cursor: Cursor): void {
  for (let count = 0; cursor.at < cursor.end; count++) {
    if (count >= maxFieldsPerMessage)
      throw malformed("message", `has more than ${maxFieldsPerMessage} fields`);
    skipValue(cursor, varint(cursor) % 8);
  }
}

/**
 * Checks the outer two levels of an envelope: well-formed fields, one body, bounded counts. Deeper levels are
 * bounded by the schema, which has no recursion, and by the bytes there are.
 * @throws ENVELOPE_MALFORMED
 */
export function scanEnvelope(bytes: Uint8Array): { readonly protocol: number } {
  const cursor: Cursor = { bytes, at: 0, end: bytes.length };
  let protocol = 0;
  let bodies = 0;
  for (let count = 0; cursor.at < cursor.end; count++) {
    if (count >= maxEnvelopeFields) throw malformed("envelope", `has more than ${maxEnvelopeFields} fields`);
    const tag = varint(cursor);
    const number = Math.floor(tag / 8);
    const wireType = tag % 8;
    const { value, from } = skipValue(cursor, wireType);
    if (number === protocolField && wireType === 0) protocol = value;
    if (number < firstBody || number > lastBody || wireType !== 2) continue;
    if (++bodies > 1) throw malformed("envelope", "has more than one body");
    countFields({ bytes, at: from, end: cursor.at });
  }
  return { protocol };
}
