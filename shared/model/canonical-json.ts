/**
 * Canonical JSON: RFC 8785 over tagged values, so that every value that is hashed has one form only.
 * Whole numbers up to 2^53 − 1 are JSON numbers; every other double is {"$f64":"<16 hex digits of its
 * bits>"}; a bigint is {"$i64":"<decimal>"}; a name that begins with "$" is written with a further "$".
 */
import canonicalize from "canonicalize";
import { StemmaError } from "../errors.js";
import {
  isJsonArray,
  isJsonObject,
  isWellFormedText,
  parseStrictJson,
  type Json,
  type JsonObject,
} from "../tensor/strict-json.js";

export type CanonicalValue =
  | null
  | boolean
  | number
  | bigint
  | string
  | readonly CanonicalValue[]
  | { readonly [name: string]: CanonicalValue | undefined };

export interface CanonicalLimits {
  readonly maxBytes?: number;
  readonly maxDepth?: number;
}
const defaultLimits = { maxBytes: 16 * 1024 * 1024, maxDepth: 64 };
const minInteger = -(2n ** 63n);
const maxInteger = 2n ** 64n - 1n;

function refuse(reason: string, details: Record<string, unknown> = {}): never {
  throw new StemmaError(
    "CANONICAL_JSON_INVALID",
    `This is not canonical JSON: ${reason}. Take the bytes as they were first written.`,
    details,
  );
}

/**
 * The 16 hexadecimal digits of a double's bits, most significant first. Every NaN has the bits
 * 7ff8000000000000.
 */
export function doubleBits(value: number): string {
  const view = new DataView(new ArrayBuffer(8));
  if (Number.isNaN(value)) return "7ff8000000000000";
  view.setFloat64(0, value);
  return view.getBigUint64(0).toString(16).padStart(16, "0");
}

function tagged(value: CanonicalValue, depth: number, maxDepth: number): unknown {
  if (depth > maxDepth) refuse(`it is nested deeper than ${maxDepth}`);
  if (value === null || typeof value === "boolean") return value;
  if (typeof value === "number")
    return Number.isSafeInteger(value) && !Object.is(value, -0) ? value : { $f64: doubleBits(value) };
  if (typeof value === "bigint") {
    if (value < minInteger || value > maxInteger) refuse(`the number ${value} does not fit into 64 bits`);
    return { $i64: value.toString() };
  }
  if (typeof value === "string")
    return isWellFormedText(value) ? value : refuse("a string holds half a surrogate pair");
  if (Array.isArray(value))
    return (value as readonly CanonicalValue[]).map((item) => tagged(item, depth + 1, maxDepth));
  if (typeof value !== "object" || typeof (value as { toJSON?: unknown }).toJSON === "function")
    return refuse(`it cannot hold a value of type ${typeof value}`);
  const members = Object.entries(value as Readonly<Record<string, CanonicalValue | undefined>>).filter(
    ([, member]) => member !== undefined,
  );
  return Object.fromEntries(
    members.map(([name, member]) => [
      name.startsWith("$") ? `$${name}` : name,
      tagged(member as CanonicalValue, depth + 1, maxDepth),
    ]),
  );
}

/**
 * The only canonical JSON text of a value, as UTF-8. Members that are undefined are left out. @throws
 * CANONICAL_JSON_INVALID
 */
export function encodeCanonical(value: CanonicalValue, limits: CanonicalLimits = {}): Uint8Array {
  const { maxBytes, maxDepth } = { ...defaultLimits, ...limits };
  const text = canonicalize(tagged(value, 0, maxDepth));
  if (text === undefined) return refuse("there is no value");
  const bytes = new TextEncoder().encode(text);
  if (bytes.length > maxBytes) refuse(`it has ${bytes.length} bytes, more than ${maxBytes}`);
  return bytes;
}

function untaggedTag(members: JsonObject): CanonicalValue | undefined {
  const first = members.keys().next().value;
  if (members.size !== 1 || first === undefined || !first.startsWith("$") || first.startsWith("$$"))
    return undefined;
  const value = members.get(first);
  if (first === "$f64" && typeof value === "string" && /^[0-9a-f]{16}$/.test(value)) {
    const view = new DataView(new ArrayBuffer(8));
    view.setBigUint64(0, BigInt(`0x${value}`));
    return view.getFloat64(0);
  }
  if (first === "$i64" && typeof value === "string" && /^-?[0-9]{1,20}$/.test(value)) return BigInt(value);
  return refuse(`the tag ${JSON.stringify(first)} is unknown or its value malformed`);
}

function untagged(value: Json): CanonicalValue {
  if (typeof value === "number" && (!Number.isSafeInteger(value) || Object.is(value, -0)))
    return refuse(`the number ${Object.is(value, -0) ? "-0" : value} lacks its tag`);
  if (isJsonArray(value)) return value.map(untagged);
  if (!isJsonObject(value)) return value;
  const tag = untaggedTag(value);
  if (tag !== undefined) return tag;
  return Object.fromEntries(
    [...value].map(([name, member]) => {
      if (name.startsWith("$") && !name.startsWith("$$"))
        refuse(`the name ${JSON.stringify(name)} is kept for tags`);
      return [name.startsWith("$$") ? name.slice(1) : name, untagged(member)];
    }),
  );
}

/** UTF-8 bytes as text. @param fail throws the caller's error for bytes that are not UTF-8 */
export function decodeText(bytes: Uint8Array, fail: (reason: string) => never): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return fail("its bytes are not UTF-8");
  }
}

/**
 * Reads canonical JSON back. Size and depth are checked first; bytes that are not the canonical form of
 * their value are refused.
 * @throws CANONICAL_JSON_INVALID
 */
export function decodeCanonical(bytes: Uint8Array, limits: CanonicalLimits = {}): CanonicalValue {
  const { maxBytes, maxDepth } = { ...defaultLimits, ...limits };
  if (bytes.length > maxBytes) refuse(`it has ${bytes.length} bytes, more than ${maxBytes}`);
  const text = decodeText(bytes, refuse);
  // A tag is one level of nesting that the value itself does not have.
  const value = untagged(
    parseStrictJson(text, { maxDepth: maxDepth + 1, maxValues: bytes.length }, (reason, at) =>
      refuse(`${reason} (character ${at})`, { at }),
    ),
  );
  const again = encodeCanonical(value, { maxBytes: Number.MAX_SAFE_INTEGER, maxDepth: maxDepth + 1 });
  if (Buffer.compare(again, bytes) !== 0)
    refuse("its value is written in another form than the canonical one");
  return value;
}
