/**
 * Codecs of single fields: from a plain value to its protobuf form and back, with the bounds that a received
 * value must keep. Knows no message.
 */
import { StemmaError } from "../errors.js";
import type { Hash } from "../tensor/tensor.js";
import { maxListLength } from "./limits.js";

/**
 * One field: `encode` returns what protobufjs writes, `decode` checks what it has read. Both throw
 * ENVELOPE_MALFORMED.
 */
export interface Field<Value> {
  encode(value: Value, name: string): unknown;
  decode(value: unknown, name: string): Value;
}
/** A codec for every property of a message (its `type` is in the envelope). */
export type Fields<Message> = { readonly [Name in keyof Omit<Message, "type">]-?: Field<Message[Name]> };

export function malformed(name: string, problem: string): StemmaError<"ENVELOPE_MALFORMED"> {
  return new StemmaError(
    "ENVELOPE_MALFORMED",
    `The field ${name} of a message ${problem}. The sender is broken, hostile or of another version; the message is ignored.`,
    { field: name },
  );
}

function numberOf(value: unknown, name: string): number {
  if (typeof value === "number") return value;
  // protobufjs reads 64-bit integers as Long where that package is installed.
  if (
    typeof value === "object" &&
    value !== null &&
    "toNumber" in value &&
    typeof value.toNumber === "function"
  )
    return (value.toNumber as () => number)();
  throw malformed(name, "is not a number");
}

function integer(low: number, high: number): Field<number> {
  const check = (value: number, name: string): number => {
    if (!Number.isSafeInteger(value) || value < low || value > high)
      throw malformed(name, `is ${value}, not a whole number from ${low} to ${high}`);
    return value === 0 ? 0 : value;
  };
  return { encode: check, decode: (value, name) => check(numberOf(value, name), name) };
}
export const u32 = integer(0, 2 ** 32 - 1);
/** A uint64 within the integers that JavaScript represents exactly. */
export const u64 = integer(0, Number.MAX_SAFE_INTEGER);
export const i64 = integer(Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER);
/** −1 on the wire is null, "unknown". */
export const errorMs: Field<number | null> = {
  encode: (value, name) => (value === null ? -1 : u64.encode(value, name)),
  decode: (value, name) => {
    const number = i64.decode(value, name);
    return number === -1 ? null : u64.decode(number, name);
  },
};
export const flag: Field<boolean> = {
  encode: (value) => value,
  decode: (value, name) => {
    if (typeof value !== "boolean") throw malformed(name, "is not a boolean");
    return value;
  },
};

/** Text without NUL and without lone surrogates, which UTF-8 cannot carry. */
export function text(maxLength: number): Field<string> {
  const check = (value: unknown, name: string): string => {
    if (typeof value !== "string" || value.length > maxLength)
      throw malformed(name, `is not a text of at most ${maxLength} characters`);
    if (value.includes("\0") || /\p{Surrogate}/u.test(value))
      throw malformed(name, "has a character that is not allowed");
    return value;
  };
  return { encode: check, decode: check };
}

function bytesOf(value: unknown, name: string): Uint8Array {
  if (!(value instanceof Uint8Array)) throw malformed(name, "is not bytes");
  return value;
}
export function bytes(maxLength: number): Field<Uint8Array> {
  const check = (value: unknown, name: string): Uint8Array => {
    const data = bytesOf(value, name);
    if (data.length > maxLength) throw malformed(name, `has ${data.length} bytes, more than ${maxLength}`);
    return data;
  };
  return { encode: check, decode: check };
}

/** A view of the same bytes with Buffer's methods. */
function bufferOf(data: Uint8Array): Buffer {
  return Buffer.from(data.buffer, data.byteOffset, data.byteLength);
}

/** Exactly `length` raw bytes on the wire, lower-case hex here. */
export function hex(length: number): Field<string> {
  const pattern = new RegExp(`^[0-9a-f]{${length * 2}}$`);
  return {
    encode: (value, name) => {
      if (!pattern.test(value)) throw malformed(name, `is not ${length} bytes in lower-case hex`);
      return Buffer.from(value, "hex");
    },
    decode: (value, name) => {
      const data = bytesOf(value, name);
      if (data.length !== length) throw malformed(name, `has ${data.length} bytes instead of ${length}`);
      return bufferOf(data).toString("hex");
    },
  };
}
export const hash = hex(32) as unknown as Field<Hash>;
export const signature = hex(64);
export const publicKey = hex(32);
/** An absent value is sent as no bytes. */
function optionalBytes<Text extends string>(field: Field<Text>): Field<Text | undefined> {
  return {
    encode: (value, name) => (value === undefined ? new Uint8Array(0) : field.encode(value, name)),
    decode: (value, name) => (bytesOf(value, name).length === 0 ? undefined : field.decode(value, name)),
  };
}
export const optionalHash = optionalBytes(hash);
export const optionalSignature = optionalBytes(signature);

/** An absent value is sent as zero, as in protobuf. */
export function nonZero(field: Field<number>): Field<number | undefined> {
  return {
    encode: (value, name) => field.encode(value ?? 0, name),
    decode: (value, name) => field.decode(value, name) || undefined,
  };
}
/** False is absent, as in protobuf. */
export const ifTrue: Field<boolean | undefined> = {
  encode: (value) => value ?? false,
  decode: (value, name) => flag.decode(value, name) || undefined,
};
/** A text that is absent where it is empty. */
export function nonEmptyText(maxLength: number): Field<string | undefined> {
  const inner = text(maxLength);
  return {
    encode: (value, name) => inner.encode(value ?? "", name),
    decode: (value, name) => inner.decode(value, name) || undefined,
  };
}
/** Bytes that are absent where they are empty. */
export function nonEmptyBytes(maxLength: number): Field<Uint8Array | undefined> {
  const inner = bytes(maxLength);
  return {
    encode: (value, name) => inner.encode(value ?? new Uint8Array(0), name),
    decode: (value, name) => {
      const data = inner.decode(value, name);
      return data.length === 0 ? undefined : data;
    },
  };
}
/** An absent list is sent as an empty one. */
export function nonEmpty<Value>(field: Field<readonly Value[]>): Field<readonly Value[] | undefined> {
  return {
    encode: (value, name) => field.encode(value ?? [], name),
    decode: (value, name) => {
      const list = field.decode(value, name);
      return list.length === 0 ? undefined : list;
    },
  };
}

/** A field of many hashes, concatenated. */
export function hashes(maxCount: number): Field<readonly Hash[]> {
  return {
    encode: (value, name) => {
      if (value.length > maxCount) throw malformed(name, `has ${value.length} hashes, more than ${maxCount}`);
      return Buffer.concat(value.map((one) => hash.encode(one, name) as Buffer));
    },
    decode: (value, name) => {
      const data = bytesOf(value, name);
      if (data.length % 32 !== 0 || data.length / 32 > maxCount)
        throw malformed(name, `has ${data.length} bytes, not 32 for each of at most ${maxCount} hashes`);
      return Array.from(
        { length: data.length / 32 },
        (_, at) => bufferOf(data.subarray(at * 32, at * 32 + 32)).toString("hex") as Hash,
      );
    },
  };
}

export function list<Value>(item: Field<Value>, maxLength = maxListLength): Field<readonly Value[]> {
  const check = (value: unknown, name: string): readonly unknown[] => {
    if (!Array.isArray(value) || value.length > maxLength)
      throw malformed(name, `is not a list of at most ${maxLength} items`);
    return value;
  };
  return {
    encode: (value, name) => {
      check(value, name);
      return value.map((one) => item.encode(one, name));
    },
    decode: (value, name) => check(value, name).map((one) => item.decode(one, name)),
  };
}

/** An enumeration: the position in `names` is the number on the wire. */
export function choice<const Names extends readonly string[]>(names: Names): Field<Names[number]> {
  return {
    encode: (value, name) => {
      const at = names.indexOf(value);
      if (at < 0) throw malformed(name, `is ${value}, not one of ${names.join(", ")}`);
      return at;
    },
    decode: (value, name) => {
      const found = names[numberOf(value, name)];
      if (found === undefined)
        throw malformed(name, `is ${String(value)}, not one of 0 to ${names.length - 1}`);
      return found;
    },
  };
}
/** A value of a fixed list, as text on the wire. */
export function oneOf<const Names extends readonly string[]>(names: Names): Field<Names[number]> {
  const check = (value: unknown, name: string): Names[number] => {
    if (typeof value !== "string" || !names.includes(value))
      throw malformed(
        name,
        `is ${JSON.stringify(String(value).slice(0, 40))}, not one of ${names.join(", ")}`,
      );
    return value;
  };
  return { encode: check, decode: check };
}
/** Text of a fixed pattern; `allowEmpty` for a field that may be absent. */
export function matching(pattern: RegExp, description: string, allowEmpty = false): Field<string> {
  const check = (value: unknown, name: string): string => {
    if (typeof value !== "string" || !((allowEmpty && value === "") || pattern.test(value)))
      throw malformed(name, `is not ${description}`);
    return value;
  };
  return { encode: check, decode: check };
}

export function encodeFields<Message extends object>(
  fields: Fields<Message>,
  message: Message,
  where: string,
): Record<string, unknown> {
  const plain: Record<string, unknown> = {};
  for (const name of Object.keys(fields) as (keyof Fields<Message> & string)[]) {
    plain[name] = (fields[name] as Field<unknown>).encode(
      (message as Record<string, unknown>)[name],
      `${where}.${name}`,
    );
  }
  return plain;
}
export function decodeFields<Message extends object>(
  fields: Fields<Message>,
  plain: object,
  where: string,
): Omit<Message, "type"> {
  const message: Record<string, unknown> = {};
  for (const name of Object.keys(fields) as (keyof Fields<Message> & string)[]) {
    const value = (fields[name] as Field<unknown>).decode(
      (plain as Record<string, unknown>)[name],
      `${where}.${name}`,
    );
    if (value !== undefined) message[name] = value;
  }
  return message as Omit<Message, "type">;
}
/** A message inside a message. */
export function message<Message extends object>(fields: Fields<Message>): Field<Message> {
  return {
    encode: (value, name) => encodeFields(fields, value, name),
    decode: (value, name) => {
      if (typeof value !== "object" || value === null) throw malformed(name, "is not a message");
      return decodeFields(fields, value, name) as Message;
    },
  };
}
export function optional<Value>(field: Field<Value>): Field<Value | undefined> {
  return {
    encode: (value, name) => (value === undefined ? undefined : field.encode(value, name)),
    decode: (value, name) => (value === undefined || value === null ? undefined : field.decode(value, name)),
  };
}
