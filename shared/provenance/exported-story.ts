/**
 * Carries the story of a model in an exported file. It has its record, and the objects that tell how it was made, each
 * found by the hash that the record names. A reader believes nothing of it before its check: `decodeStory` compares
 * every hash, and only a replay proves that the story is true. (docs/formats.md, "Story in a file")
 */
import { StemmaError } from "../errors.js";
import { decodeCanonical, encodeCanonical, type CanonicalValue } from "../model/canonical-json.js";
import type { ObjectKind, SaveRecord } from "../model/model.js";
import { decodeSaveRecord } from "../model/save-record.js";
import { objectId } from "../tensor/hash.js";
import type { Hash } from "../tensor/tensor.js";
import { openProvenance, type OpenedProvenance } from "./openings.js";

/** The key of `__metadata__` in a safetensors file. */
export const storyKey = "stemma.story";
/** Longest story, bytes of its text. */
export const maxStoryBytes = 4 * 1024 * 1024;
/** Longer architectures are left out; whoever has the model's file alone then needs its model.json to import it. */
export const maxStoryArchitectureBytes = 1024 * 1024;

const limits = { maxBytes: maxStoryBytes, maxDepth: 32 };
export const storyFields = [
  "format",
  "record",
  "bases",
  "provenance",
  "openings",
  "environment",
  "metadata",
  "architecture",
  "fileOrder",
];

/** Canonical JSON of the objects, as they are stored. */
export interface StoryObjects {
  readonly record: Uint8Array;
  /** Records of the versions that the training began from. */
  readonly bases: readonly Uint8Array[];
  readonly provenance: Uint8Array;
  /** The openings; undefined where they were redacted. */
  readonly openings: Uint8Array | undefined;
  readonly environment: Uint8Array | undefined;
  readonly metadata: Uint8Array | undefined;
  readonly architecture: Uint8Array | undefined;
  /** Leaf indices in the order of the file; undefined: canonical order. */
  readonly fileOrder: readonly number[] | undefined;
}

/** A story whose hashes are those that its record names, and whose openings are what its provenance commits to. */
export interface ExportedStory {
  /** The id of the version that was exported. */
  readonly versionId: Hash;
  readonly record: SaveRecord;
  readonly objects: StoryObjects;
  readonly opened: OpenedProvenance;
  /** Records of the versions that it was trained from, by version id. */
  readonly bases: ReadonlyMap<Hash, SaveRecord>;
}

function invalid(reason: string, cause?: unknown): never {
  throw new StemmaError(
    "STORY_INVALID",
    `The story in this file cannot be believed: ${reason}. Export the model again from where it was trained; ` +
      "to import the file without its story, use --no-story.",
    { cause },
  );
}

/** @returns the text for `__metadata__`; undefined where it would be longer than allowed */
export function encodeStory(objects: StoryObjects): string | undefined {
  const { bases, fileOrder, ...named } = objects;
  const value: Record<string, CanonicalValue> = { format: 1 };
  for (const [name, bytes] of Object.entries(named)) if (bytes !== undefined) value[name] = valueOf(bytes);
  if (bases.length > 0) value["bases"] = bases.map(valueOf);
  if (fileOrder !== undefined) value["fileOrder"] = fileOrder;
  try {
    return Buffer.from(encodeCanonical(value, limits)).toString("utf8");
  } catch (error) {
    if (error instanceof StemmaError && error.code === "CANONICAL_JSON_INVALID") return undefined;
    throw error;
  }
}

/** Returns what remains of a story where the version has its objects: the record, and the records of its bases. */
export function withoutValues(objects: StoryObjects): StoryObjects {
  const left = { openings: undefined, environment: undefined, metadata: undefined, architecture: undefined };
  return { ...objects, ...left, fileOrder: undefined };
}

/** Canonical JSON has one form only, so that the same bytes come out of the value again. */
function valueOf(bytes: Uint8Array): CanonicalValue {
  return decodeCanonical(bytes, limits);
}

/**
 * Reads the story of a file and compares all its hashes.
 * @throws STORY_INVALID
 */
export function decodeStory(text: string): ExportedStory {
  if (text.length > maxStoryBytes) invalid(`it has more than ${maxStoryBytes} bytes`);
  let story: ExportedStory;
  try {
    story = read(decodeCanonical(Buffer.from(text, "utf8"), limits));
  } catch (error) {
    if (error instanceof StemmaError && error.code !== "STORY_INVALID") invalid(error.message, error);
    throw error;
  }
  return story;
}

type Members = Readonly<Record<string, CanonicalValue | undefined>>;

function read(value: CanonicalValue): ExportedStory {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    return invalid("it is not an object");
  const story = value as Members;
  const unknown = Object.keys(story).find((name) => !storyFields.includes(name));
  if (unknown !== undefined) invalid(`it has the unknown member ${JSON.stringify(unknown.slice(0, 80))}`);
  if (story["format"] !== 1) invalid("its format is not 1");
  const recordBytes = bytesOf(story["record"]) ?? invalid("it has no record");
  const record = decodeSaveRecord(recordBytes);
  const named = (kind: "provenance" | "openings" | "environment" | "metadata" | "architecture"): Named => ({
    kind,
    bytes: bytesOf(story[kind]),
    expected: record.objects[kind],
  });
  const provenance = checked(named("provenance")) ?? invalid("it does not tell how the model was made");
  const openings = checked(named("openings"));
  const opened = openProvenance(provenance, openings);
  const bases = basesOf(story["bases"], opened.provenance.bases);
  return {
    versionId: objectId("record", recordBytes),
    record,
    opened,
    bases: new Map([...bases].map(([id, bytes]) => [id, decodeSaveRecord(bytes)])),
    objects: {
      record: recordBytes,
      bases: [...bases.values()],
      provenance,
      openings,
      environment: checked(named("environment")),
      metadata: checked(named("metadata")),
      architecture: checked(named("architecture")),
      fileOrder: fileOrderOf(story["fileOrder"]),
    },
  };
}

function bytesOf(value: CanonicalValue | undefined): Uint8Array | undefined {
  return value === undefined ? undefined : encodeCanonical(value, limits);
}

interface Named {
  readonly kind: ObjectKind;
  readonly bytes: Uint8Array | undefined;
  readonly expected: Hash | undefined;
}

function checked({ kind, bytes, expected }: Named): Uint8Array | undefined {
  if (bytes !== undefined && objectId(kind, bytes) !== expected)
    invalid(`its ${kind} is not the one that its record names`);
  return bytes;
}

/** Bytes of the records by version id. */
function basesOf(
  value: CanonicalValue | undefined,
  expected: readonly Hash[],
): ReadonlyMap<Hash, Uint8Array> {
  if (value === undefined) return new Map();
  if (!Array.isArray(value) || value.length > expected.length)
    return invalid("it has records of other bases");
  return new Map(
    (value as readonly CanonicalValue[]).map((item) => {
      const bytes = encodeCanonical(item, limits);
      const versionId = objectId("record", bytes);
      if (!expected.includes(versionId)) invalid("it has the record of another base");
      return [versionId, bytes];
    }),
  );
}

function fileOrderOf(value: CanonicalValue | undefined): readonly number[] | undefined {
  if (value === undefined) return undefined;
  if (!Array.isArray(value) || !value.every((leaf) => Number.isSafeInteger(leaf) && Number(leaf) >= 0))
    return invalid("its file order is not a list of indices");
  return value as readonly number[];
}
