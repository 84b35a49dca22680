/** The training of a version as other tools' documents state it: what went in, by hash, and what is redacted. Pure. */
import { createHash } from "node:crypto";
import { StemmaError } from "../../../shared/errors.js";
import { isHash } from "../../../shared/tensor/hash.js";
import type { ModelDescription } from "../../interface/api/models/version-schemas.js";
import { nameOf } from "../version-text.js";
import { shownText } from "./card-text.js";
import { isRedacted, knownProvenance, membersOf, textOf, type Members } from "./statement.js";

/** Longest value of the record that a document has in full, in characters of its JSON. */
const maxValueCharacters = 8192;

interface TrainingFacts {
  /** The provenance's members; those that are redacted have the member `redacted` alone. */
  readonly members: Members;
  readonly bases: readonly { readonly id: string; readonly name: string | undefined }[];
  readonly data: readonly { readonly hash: string; readonly name: string | undefined }[];
  readonly redacted: readonly string[];
  /** The time when the training ended, by the trainer's clock, in milliseconds since 1970. */
  readonly endedAtMs: number | undefined;
}

/** @throws NOT_FOUND where no provenance of format 1 is recorded */
export function trainingFacts(described: ModelDescription): TrainingFacts {
  const members = membersOf(knownProvenance(described.provenance));
  if (typeof members["engine"] !== "string" && members["program"] === undefined)
    throw new StemmaError(
      "NOT_FOUND",
      `No training is recorded of ${nameOf(described)}: it was imported, or made by a program that was not recorded. ` +
        "Its card and bill of materials say what is known: stemma model card.",
    );
  const ended = membersOf(members["times"])["endedAtMs"];
  return {
    members: Object.fromEntries(Object.entries(members).map(([name, value]) => [name, boundedValue(value)])),
    bases: hashesOf(members["bases"]).map((id) => {
      const base = described.bases.find((each) => each.versionId === id);
      return { id, name: base && shownText(nameOf(base)) };
    }),
    data: dataOf(members),
    redacted: Object.keys(members).filter((name) => isRedacted(members[name])),
    endedAtMs: isDate(ended) ? ended : undefined,
  };
}

function hashesOf(value: unknown): readonly string[] {
  return [...new Set(Array.isArray(value) ? value.filter((each): each is string => isHash(each)) : [])];
}

function dataOf({ data, dataHashes }: Members): TrainingFacts["data"] {
  const sets: readonly unknown[] = Array.isArray(data) ? data : [];
  const hashes: readonly unknown[] = Array.isArray(dataHashes) ? dataHashes : [];
  return hashesOf(hashes).map((hash) => {
    const name = textOf(membersOf(sets[hashes.indexOf(hash)])["name"]);
    return { hash, name: name === undefined ? undefined : shownText(name) };
  });
}

function isDate(value: unknown): value is number {
  return typeof value === "number" && value >= 0 && value <= Date.UTC(9999, 11, 31);
}

/** The value, or where it is long its length and SHA-256: so a document is bounded, and still binds it. */
function boundedValue(value: unknown): unknown {
  const text = JSON.stringify(value) as string | undefined;
  if (text === undefined || text.length <= maxValueCharacters) return value;
  return { characters: text.length, sha256OfJson: createHash("sha256").update(text).digest("hex") };
}
