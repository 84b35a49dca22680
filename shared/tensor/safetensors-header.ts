/**
 * The header of a safetensors file (https://github.com/huggingface/safetensors, "Format"): u64 length ‖ JSON
 * ‖ tensors' bytes. Reads headers from outside and refuses every malformed one; writes headers. No I/O.
 */
import { messageOf } from "../error-text.js";
import { StemmaError } from "../errors.js";
import { isDType, tensorByteLength, type DType } from "./dtype.js";
import {
  isJsonArray,
  isJsonObject,
  isWellFormedText,
  parseStrictJson,
  type Json,
  type JsonObject,
} from "./strict-json.js";
import { hasSameHeader } from "./same-header.js";
import type { TensorHeader } from "./tensor.js";

/** The reference implementation's limit. */
export const maxHeaderBytes = 100_000_000;
/** Bounds the memory a header can cost: about 300,000 tensors. */
const maxHeaderValues = 2_500_000;
const maxNameBytes = 65_535;
const metadataName = "__metadata__";

/** One tensor of a file; `begin` and `end` count from the first byte after the header. */
export interface SafetensorsEntry extends TensorHeader {
  readonly name: string;
  readonly begin: number;
  readonly end: number;
}

export interface SafetensorsHeader {
  /** The tensors in the order of their bytes; those with the same range are in the order of the header. */
  readonly tensors: readonly SafetensorsEntry[];
  readonly metadata: Readonly<Record<string, string>> | undefined;
  /** The header's text as in the file, padding included. */
  readonly text: string;
}

export function safetensorsMalformed(where: string, reason: string): StemmaError<"SAFETENSORS_MALFORMED"> {
  return new StemmaError(
    "SAFETENSORS_MALFORMED",
    `${where} is not a valid safetensors file: ${reason}. Write it again with the tool it came from.`,
    { reason },
  );
}

/**
 * Reads a header's bytes (without the length before them).
 * @param dataBytes bytes that follow the header: they must be covered exactly, without holes and overlaps
 * @param where what the file is called in messages
 * @throws SAFETENSORS_MALFORMED, SAFETENSORS_TRUNCATED where bytes are missing at the end
 */
export function parseSafetensorsHeader(
  bytes: Uint8Array,
  dataBytes: number,
  where: string,
): SafetensorsHeader {
  const fail = (reason: string): never => {
    throw safetensorsMalformed(where, reason);
  };
  if (bytes.length > maxHeaderBytes)
    fail(`its header of ${bytes.length} bytes is longer than ${maxHeaderBytes}`);
  if (bytes[0] !== 0x7b) fail("its header does not begin with {");
  let text = "";
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    fail("its header is not UTF-8");
  }
  if (!/\} *$/.test(text)) fail("its header does not end with } and spaces");
  const json = parseStrictJson(
    text,
    { maxDepth: 3, maxValues: maxHeaderValues, wholeNumbersOnly: true },
    (reason, at) => fail(`${reason} (character ${at} of its header)`),
  );
  const members = isJsonObject(json) ? json : fail("its header is not an object");
  // Some writers put null where they have no metadata.
  const metadata = members.get(metadataName) ?? undefined;
  const entries = [...members]
    .filter(([name]) => name !== metadataName)
    .map(([name, value]) => entryOf(name, value, fail));
  const tensors = inFileOrder(entries);
  checkCoverage(tensors, dataBytes, fail, (needed) => {
    throw new StemmaError(
      "SAFETENSORS_TRUNCATED",
      `${where} is cut short: its tensors need ${needed} bytes, it has ${dataBytes}. Copy it again from a complete one.`,
      { needed, dataBytes },
    );
  });
  return { tensors, metadata: metadata === undefined ? undefined : metadataOf(metadata, fail), text };
}

type Fail = (reason: string) => never;

/**
 * Sorts entries by offset; a tensor without bytes comes before the one that begins at the same offset. Equal
 * ranges keep the header's order.
 */
function inFileOrder(entries: readonly SafetensorsEntry[]): readonly SafetensorsEntry[] {
  return [...entries].sort((a, b) => a.begin - b.begin || a.end - b.end);
}

function metadataOf(value: Json, fail: Fail): Readonly<Record<string, string>> {
  if (!isJsonObject(value)) return fail(`${metadataName} is not an object`);
  for (const [name, text] of value)
    if (typeof text !== "string") fail(`${metadataName}.${name.slice(0, 80)} is not a text`);
  return Object.fromEntries(value) as Record<string, string>;
}

function entryOf(name: string, value: Json, fail: Fail): SafetensorsEntry {
  const shown = `the tensor ${JSON.stringify(name.slice(0, 80))}`;
  if (Buffer.byteLength(name) > maxNameBytes) fail(`${shown} has a name longer than ${maxNameBytes} bytes`);
  if (!isJsonObject(value)) return fail(`${shown} is not described by an object`);
  for (const member of value.keys())
    if (member !== "dtype" && member !== "shape" && member !== "data_offsets")
      fail(`${shown} has the unknown member ${JSON.stringify(member.slice(0, 80))}`);
  const dtype = dtypeOf(value, shown, fail);
  const shape = numbersOf(value.get("shape"), `${shown} has a shape`, fail);
  const [begin, end, ...more] = numbersOf(value.get("data_offsets"), `${shown} has data_offsets`, fail);
  if (begin === undefined || end === undefined || more.length > 0)
    return fail(`${shown} does not have two data_offsets`);
  if (end < begin) fail(`${shown} ends at ${end} before it begins at ${begin}`);
  let needed = 0;
  try {
    needed = tensorByteLength(dtype, shape);
  } catch (error) {
    fail(`${shown}: ${messageOf(error)}`);
  }
  if (end - begin !== needed)
    fail(`${shown} has ${end - begin} bytes where ${dtype} [${shape.join(", ")}] needs ${needed}`);
  return { name, dtype, shape, begin, end };
}

function dtypeOf(value: JsonObject, shown: string, fail: Fail): DType {
  const dtype = value.get("dtype");
  return typeof dtype === "string" && isDType(dtype)
    ? dtype
    : fail(
        `${shown} has the unknown dtype ${JSON.stringify(typeof dtype === "string" ? dtype.slice(0, 40) : null)}`,
      );
}

function numbersOf(value: Json | undefined, shown: string, fail: Fail): readonly number[] {
  if (!isJsonArray(value) || !value.every((item) => typeof item === "number"))
    return fail(`${shown} that is not a list of whole numbers`);
  return value;
}

function checkCoverage(
  tensors: readonly SafetensorsEntry[],
  dataBytes: number,
  fail: Fail,
  failShort: (needed: number) => never,
): void {
  let at = 0;
  for (const { name, begin, end } of tensors) {
    if (begin !== at)
      fail(
        `the tensor ${JSON.stringify(name.slice(0, 80))} begins at ${begin}, ${begin < at ? "inside the tensor before it" : "which leaves a hole after"} (${at})`,
      );
    at = end;
  }
  if (at > dataBytes) failShort(at);
  if (at < dataBytes) fail(`${dataBytes - at} bytes follow its last tensor`);
}

/** One tensor of a file to be written. */
export interface SafetensorsPart extends TensorHeader {
  readonly name: string;
}

function offsetsOf(parts: readonly SafetensorsPart[]): readonly SafetensorsEntry[] {
  let at = 0;
  return parts.map(({ name, dtype, shape }) => {
    const begin = at;
    at += tensorByteLength(dtype, shape);
    return { name, dtype, shape, begin, end: at };
  });
}

/**
 * Header of a file that holds `parts` in this order, in the reference implementation's form: no white space,
 * metadata first, padded with spaces to 8 bytes.
 * @throws SAFETENSORS_MALFORMED for names that no file can hold
 */
export function safetensorsHeaderText(
  parts: readonly SafetensorsPart[],
  metadata: Readonly<Record<string, string>> | undefined,
): string {
  const names = new Set(parts.map(({ name }) => name));
  if (names.size !== parts.length || names.has(metadataName))
    throw safetensorsMalformed(
      "The file to be written",
      names.has(metadataName) ? `a tensor is called ${metadataName}` : "two tensors have the same name",
    );
  const texts = [...names, ...Object.entries(metadata ?? {}).flat()];
  if (!texts.every(isWellFormedText))
    throw safetensorsMalformed("The file to be written", "a name holds half a surrogate pair");
  const members = offsetsOf(parts).map(
    ({ name, dtype, shape, begin, end }) =>
      `${JSON.stringify(name)}:${JSON.stringify({ dtype, shape, data_offsets: [begin, end] })}`,
  );
  if (metadata !== undefined) members.unshift(`${JSON.stringify(metadataName)}:${JSON.stringify(metadata)}`);
  const text = `{${members.join(",")}}`;
  return text + " ".repeat((8 - (Buffer.byteLength(text) % 8)) % 8);
}

/** True if a kept header describes exactly these tensors in this order, so that it can be written before them. */
export function headerDescribes(text: string, parts: readonly SafetensorsPart[]): boolean {
  const wanted = offsetsOf(parts);
  try {
    const { tensors } = parseSafetensorsHeader(
      Buffer.from(text, "utf8"),
      wanted.at(-1)?.end ?? 0,
      "the kept header",
    );
    return (
      tensors.length === wanted.length &&
      tensors.every((tensor, i) => {
        const part = wanted[i] as SafetensorsEntry;
        return tensor.name === part.name && tensor.begin === part.begin && hasSameHeader(tensor, part);
      })
    );
  } catch {
    return false;
  }
}
