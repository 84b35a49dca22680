/**
 * Save records (formats 1 and 2) as bytes: canonical JSON of at most 64 KiB whose hash is the version id.
 * A record has the lowest format that can hold it. Written once and kept
 * as received; nothing here encodes a decoded record again. In the bytes a hash is base64url (43 characters),
 * and fields that follow from others are left out: `kind` is "architecture" where objects.architecture is
 * named and else "opaque", `architecture` is that or 32 zero bytes, and the content id is that of
 * architecture and root. A clock error that is not known is left out too. Bytes that state these fields
 * nevertheless are read, and the fields are checked.
 */
import { defined } from "../defined.js";
import { StemmaError } from "../errors.js";
import { isHash, objectId, zeroHash } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";
import { decodeCanonical, encodeCanonical, type CanonicalValue } from "./canonical-json.js";
import type { SaveRecord } from "./model.js";
import { hashFromBase64url, hashToBase64url, invalidRecord, listOf, membersOf } from "./record-fields.js";
import { checkUses, decodeUses, encodeUses } from "./record-uses.js";
import { contentId } from "./tree.js";

export const maxRecordBytes = 64 * 1024;
const maxBases = 64;
const maxAttachments = 256;
export const objectFields = [
  "tree",
  "architecture",
  "names",
  "ownerMap",
  "environment",
  "measurements",
  "checkpoints",
  "provenance",
  "metadata",
  "openings",
] as const;
const requiredObjects = new Set<string>(["tree", "names", "ownerMap", "environment"]);

/** Version id: H("stemma-record-1\0" ‖ bytes as received). */
export function versionIdOf(recordBytes: Uint8Array): Hash {
  return objectId("record", recordBytes);
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
    uses,
    ...plain
  } = record;
  const { attachments, ...hashes } = objects;
  const value: CanonicalValue = {
    ...plain,
    clockErrorMs: clockErrorMs ?? undefined,
    bases: bases.map(hashToBase64url),
    root: hashToBase64url(root),
    successorOf: successorOf === undefined ? undefined : hashToBase64url(successorOf),
    objects: {
      ...Object.fromEntries(
        Object.entries(hashes)
          .filter(([, hash]) => hash !== undefined)
          .map(([field, hash]) => [field, hashToBase64url(hash)]),
      ),
      attachments: attachments?.map(({ name, hash }) => ({ name, hash: hashToBase64url(hash) })),
    },
    uses: uses === undefined ? undefined : encodeUses(uses),
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

export const recordFields = [
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
  "uses",
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
  const record = recordOf(decodeCanonical(bytes, { maxBytes: maxRecordBytes, maxDepth: 5 }));
  checkRecord(record);
  return record;
}

/**
 * Reads bytes that decodeSaveRecord has read before and that a checksum has guarded since, in a tenth of its time:
 * what it checked is not checked again.
 */
export function decodeCheckedRecord(bytes: Uint8Array): SaveRecord {
  return recordOf(
    JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString()) as CanonicalValue,
  );
}

function recordOf(read: CanonicalValue): SaveRecord {
  const value = membersOf(read, "it", recordFields);
  const objects = membersOf(value["objects"], "objects", [...objectFields, "attachments"]);
  const hashes: Record<string, Hash> = {};
  for (const field of objectFields) {
    if (objects[field] !== undefined) hashes[field] = hashFromBase64url(objects[field], `objects.${field}`);
    else if (requiredObjects.has(field)) invalidRecord(`objects.${field} is missing`);
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
  return {
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
    objects: { ...hashes, ...defined({ attachments }) },
    ...(value["uses"] === undefined ? {} : { uses: decodeUses(value["uses"]) }),
  } as unknown as SaveRecord;
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
  checkFormat(record);
  if (typeof record.name !== "string" || !displayName.test(record.name) || record.name.trim() !== record.name)
    invalidRecord("its name is empty, too long, or has characters that no name may have");
  for (const field of ["fleet", "device", "line"] as const)
    if (typeof record[field] !== "string" || !label.test(record[field]))
      invalidRecord(`its ${field} is empty, too long, or has characters that no ${field} may have`);
  if (!Number.isSafeInteger(record.sequence) || record.sequence < 1)
    invalidRecord("its sequence is not a whole number ≥ 1");
  if (!Number.isSafeInteger(record.savedAtMs) || record.savedAtMs < 0)
    invalidRecord("its time is not a whole number of milliseconds");
  if (
    record.clockErrorMs !== null &&
    !(Number.isSafeInteger(record.clockErrorMs) && record.clockErrorMs >= 0)
  )
    invalidRecord("its clock error is neither unknown nor a whole number of milliseconds");
  if (!["snapshot", "update", "provenance"].includes(record.approach))
    invalidRecord("its approach is unknown");
  if (record.scheme !== undefined && (typeof record.scheme !== "string" || !schemeLabel.test(record.scheme)))
    invalidRecord("its scheme is not the name of a float scheme");
  if (record.kind !== "architecture" && record.kind !== "opaque") invalidRecord("its kind is unknown");
  if (record.bases.length > maxBases || new Set(record.bases).size !== record.bases.length)
    invalidRecord("a base is named twice, or there are too many");
  checkHashes(record);
  if ((record.kind === "architecture") !== (record.objects.architecture !== undefined))
    invalidRecord("its kind does not agree with its architecture");
  if (record.architecture !== (record.objects.architecture ?? zeroHash))
    invalidRecord("it names two architectures");
  if (record.contentId !== contentId(record.architecture, record.root))
    invalidRecord("its content id is not that of its architecture and root");
}

function checkFormat({ format, objects, uses }: SaveRecord): void {
  if ((format as number) !== 1 && (format as number) !== 2)
    invalidRecord(`its format is ${String(format)}, this Stemma knows 1 and 2`);
  if (uses !== undefined) checkUses(uses);
  const needed = uses === undefined && objects.openings === undefined ? 1 : 2;
  if (format !== needed)
    invalidRecord(
      `its format is ${format}, ` +
        `but ${needed === 1 ? "without `uses` and openings" : "with `uses` or openings"} it is ${needed}`,
    );
}

function checkHashes(record: SaveRecord): void {
  const { attachments = [], ...hashes } = record.objects;
  for (const hash of [
    record.contentId,
    record.root,
    ...record.bases,
    ...Object.values(hashes).filter((value) => value !== undefined),
  ])
    if (!isHash(hash)) invalidRecord("one of its hashes is not 64 hexadecimal digits");
  if (record.successorOf !== undefined && !isHash(record.successorOf))
    invalidRecord("successorOf is not a hash");
  if (
    attachments.length > maxAttachments ||
    new Set(attachments.map(({ name }) => name)).size !== attachments.length
  )
    invalidRecord("an attachment is named twice, or there are too many");
  for (const { name, hash } of attachments)
    if (typeof name !== "string" || !/^[^\p{Cc}\p{Cs}/\\]{1,200}$/u.test(name) || !isHash(hash))
      invalidRecord("an attachment lacks a proper name or hash");
}
