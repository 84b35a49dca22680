/**
 * Save records as bytes: canonical JSON of at most 64 KiB whose hash is the version id. Written once and kept
 * as received; nothing here encodes a decoded record again. In the bytes a hash is base64url (43 characters),
 * and fields that follow from others are left out: `kind` is "architecture" where objects.architecture is
 * named and else "opaque", `architecture` is that or 32 zero bytes, and the content id is that of
 * architecture and root. A clock error that is not known is left out too. Bytes that state these fields
 * nevertheless are read, and the fields are checked.
 */
import { StemmaError } from "../errors.js";
import { hashBytes, hexOf, isHash, objectId, zeroHash } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";
import { decodeCanonical, encodeCanonical, type CanonicalValue } from "./canonical-json.js";
import type { SaveRecord } from "./model.js";
import { contentId } from "./tree.js";

export const maxRecordBytes = 64 * 1024;
const maxBases = 64;
const maxAttachments = 256;
const objectFields = [
  "tree",
  "architecture",
  "names",
  "ownerMap",
  "environment",
  "measurements",
  "checkpoints",
  "provenance",
  "metadata",
] as const;
const requiredObjects = new Set<string>(["tree", "names", "ownerMap", "environment"]);

function invalid(reason: string): never {
  throw new StemmaError(
    "RECORD_INVALID",
    `This is not a save record: ${reason}. Ask its sender for the record again.`,
  );
}

/** Version id: H("stemma-record-1\0" ‖ bytes as received). */
export function versionIdOf(recordBytes: Uint8Array): Hash {
  return objectId("record", recordBytes);
}

function toBase64url(hash: Hash): string {
  return Buffer.from(hashBytes(hash)).toString("base64url");
}

/** The bytes of a new record. @throws RECORD_INVALID, RECORD_TOO_LARGE */
export function encodeSaveRecord(record: SaveRecord): Uint8Array {
  checkRecord(record);
  const {
    architecture: _derived,
    contentId: _content,
    kind: _kind,
    clockErrorMs,
    objects,
    bases,
    root,
    successorOf,
    ...plain
  } = record;
  const { attachments, ...hashes } = objects;
  const value: CanonicalValue = {
    ...plain,
    clockErrorMs: clockErrorMs ?? undefined,
    bases: bases.map(toBase64url),
    root: toBase64url(root),
    successorOf: successorOf === undefined ? undefined : toBase64url(successorOf),
    objects: {
      ...Object.fromEntries(
        Object.entries(hashes)
          .filter(([, hash]) => hash !== undefined)
          .map(([field, hash]) => [field, toBase64url(hash)]),
      ),
      attachments: attachments?.map(({ name, hash }) => ({ name, hash: toBase64url(hash) })),
    },
  };
  const bytes = encodeCanonical(value);
  if (bytes.length > maxRecordBytes)
    throw new StemmaError(
      "RECORD_TOO_LARGE",
      `The save record has ${bytes.length} bytes, more than ${maxRecordBytes}. Attach fewer files, or name fewer bases.`,
      { actual: bytes.length },
    );
  return bytes;
}

type Members = Readonly<Record<string, unknown>>;

function membersOf(value: unknown, what: string, allowed: readonly string[]): Members {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    return invalid(`${what} is not an object`);
  for (const name of Object.keys(value))
    if (!allowed.includes(name))
      invalid(`${what} has the unknown member ${JSON.stringify(name.slice(0, 80))}`);
  return value as Members;
}

function hashFromBase64url(value: unknown, what: string): Hash {
  if (typeof value === "string" && /^[0-9A-Za-z_-]{43}$/.test(value)) {
    const bytes = Buffer.from(value, "base64url");
    if (bytes.length === 32 && bytes.toString("base64url") === value) return hexOf(bytes);
  }
  return invalid(`${what} is not a hash`);
}

function listOf<T>(
  value: unknown,
  what: string,
  max: number,
  read: (item: unknown, i: number) => T,
): readonly T[] {
  if (!Array.isArray(value) || value.length > max) return invalid(`${what} is not a list of at most ${max}`);
  return value.map(read);
}

const fields = [
  "format",
  "name",
  "fleet",
  "device",
  "line",
  "sequence",
  "bases",
  "successorOf",
  "kind",
  "contentId",
  "root",
  "approach",
  "scheme",
  "savedAtMs",
  "clockErrorMs",
  "objects",
];

/**
 * Reads record bytes as they were received. Everything in it is checked, the content id against architecture
 * and root.
 * @throws RECORD_TOO_LARGE, RECORD_INVALID, CANONICAL_JSON_INVALID
 */
export function decodeSaveRecord(bytes: Uint8Array): SaveRecord {
  if (bytes.length > maxRecordBytes)
    throw new StemmaError(
      "RECORD_TOO_LARGE",
      `A save record has at most ${maxRecordBytes} bytes, this one ${bytes.length}. Ask its sender for the record again.`,
      { actual: bytes.length },
    );
  const value = membersOf(decodeCanonical(bytes, { maxBytes: maxRecordBytes, maxDepth: 5 }), "it", fields);
  const objects = membersOf(value["objects"], "objects", [...objectFields, "attachments"]);
  const hashes: Record<string, Hash> = {};
  for (const field of objectFields) {
    if (objects[field] !== undefined) hashes[field] = hashFromBase64url(objects[field], `objects.${field}`);
    else if (requiredObjects.has(field)) invalid(`objects.${field} is missing`);
  }
  const attachments =
    objects["attachments"] === undefined
      ? undefined
      : listOf(objects["attachments"], "objects.attachments", maxAttachments, (item, i) => {
          const entry = membersOf(item, `attachment ${i}`, ["name", "hash"]);
          return {
            name: entry["name"] as string,
            hash: hashFromBase64url(entry["hash"], `the hash of attachment ${i}`),
          };
        });
  const root = hashFromBase64url(value["root"], "root");
  const architecture = hashes["architecture"] ?? zeroHash;
  const record = {
    ...value,
    bases: listOf(value["bases"], "bases", maxBases, (item, i) => hashFromBase64url(item, `base ${i}`)),
    ...(value["successorOf"] === undefined
      ? {}
      : { successorOf: hashFromBase64url(value["successorOf"], "successorOf") }),
    kind: value["kind"] ?? (hashes["architecture"] === undefined ? "opaque" : "architecture"),
    architecture,
    root,
    contentId:
      value["contentId"] === undefined
        ? contentId(architecture, root)
        : hashFromBase64url(value["contentId"], "contentId"),
    clockErrorMs: value["clockErrorMs"] ?? null,
    objects: { ...hashes, ...(attachments === undefined ? {} : { attachments }) },
  } as unknown as SaveRecord;
  checkRecord(record);
  return record;
}

/**
 * Names that people give. They are shown in tables and typed in commands, so they have no control characters,
 * and no ":", which separates name and version.
 */
const displayName = /^[^\p{Cc}\p{Cs}\p{Zl}\p{Zp}:]{1,200}$/u;
/** Names that become part of a topic or of a folder's name. */
const label = /^[^\p{Cc}\p{Cs}\p{Z}:/\\+#.$][^\p{Cc}\p{Cs}\p{Z}:/\\+#]{0,127}$/u;

/** A float scheme and its bits, such as "quantize-uniform:8". */
const schemeLabel = /^[a-z0-9][a-z0-9-]{0,39}(:[0-9]{1,3})?$/;

function checkRecord(record: SaveRecord): void {
  if ((record.format as number) !== 1) invalid(`its format is ${String(record.format)}, this Stemma knows 1`);
  if (typeof record.name !== "string" || !displayName.test(record.name) || record.name.trim() !== record.name)
    invalid("its name is empty, too long, or has characters that no name may have");
  for (const field of ["fleet", "device", "line"] as const)
    if (typeof record[field] !== "string" || !label.test(record[field]))
      invalid(`its ${field} is empty, too long, or has characters that no ${field} may have`);
  if (!Number.isSafeInteger(record.sequence) || record.sequence < 1)
    invalid("its sequence is not a whole number ≥ 1");
  if (!Number.isSafeInteger(record.savedAtMs) || record.savedAtMs < 0)
    invalid("its time is not a whole number of milliseconds");
  if (
    record.clockErrorMs !== null &&
    !(Number.isSafeInteger(record.clockErrorMs) && record.clockErrorMs >= 0)
  )
    invalid("its clock error is neither unknown nor a whole number of milliseconds");
  if (!["snapshot", "update", "provenance"].includes(record.approach)) invalid("its approach is unknown");
  if (record.scheme !== undefined && (typeof record.scheme !== "string" || !schemeLabel.test(record.scheme)))
    invalid("its scheme is not the name of a float scheme");
  if (record.kind !== "architecture" && record.kind !== "opaque") invalid("its kind is unknown");
  if (record.bases.length > maxBases || new Set(record.bases).size !== record.bases.length)
    invalid("a base is named twice, or there are too many");
  checkHashes(record);
  if ((record.kind === "architecture") !== (record.objects.architecture !== undefined))
    invalid("its kind does not agree with its architecture");
  if (record.architecture !== (record.objects.architecture ?? zeroHash))
    invalid("it names two architectures");
  if (record.contentId !== contentId(record.architecture, record.root))
    invalid("its content id is not that of its architecture and root");
}

function checkHashes(record: SaveRecord): void {
  const { attachments = [], ...hashes } = record.objects;
  for (const hash of [
    record.contentId,
    record.root,
    ...record.bases,
    ...Object.values(hashes).filter((value) => value !== undefined),
  ])
    if (!isHash(hash)) invalid("one of its hashes is not 64 hexadecimal digits");
  if (record.successorOf !== undefined && !isHash(record.successorOf)) invalid("successorOf is not a hash");
  if (
    attachments.length > maxAttachments ||
    new Set(attachments.map(({ name }) => name)).size !== attachments.length
  )
    invalid("an attachment is named twice, or there are too many");
  for (const { name, hash } of attachments)
    if (typeof name !== "string" || !/^[^\p{Cc}\p{Cs}/\\]{1,200}$/u.test(name) || !isHash(hash))
      invalid("an attachment lacks a proper name or hash");
}
