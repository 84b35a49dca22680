/** The data of a model card: what a version was trained on, and what it was evaluated on. Pure. */
import type { ModelDescription } from "../../interface/api/models/version-schemas.js";
import type { DocumentSource } from "./document-source.js";
import { isRedacted, membersOf, statement, type KnownStory, type Statement } from "./statement.js";

const described = [
  ["reader", "reader"],
  ["parameters", "parameters of the reader"],
  ["format", "file format"],
  ["columns", "columns"],
  ["transformations", "transformations"],
  ["split", "split"],
] as const;
const parts = [
  ["train", "training samples"],
  ["validation", "validation samples"],
] as const;

/** One data set after the other; where none is described, each place says so. */
export function trainingDataStatements(
  { provenance, uses }: ModelDescription,
  story: KnownStory,
): readonly Statement[] {
  const { data, dataHashes } = membersOf(provenance);
  const hashes: readonly unknown[] = Array.isArray(dataHashes) ? dataHashes : [];
  const stored = uses.filter(({ kind, byteLength }) => kind === "data" && byteLength !== null);
  return [
    ...setsOf(data, hashes).flatMap((set, at) => statementsOfSet(set, hashes[at], story)),
    statement("stored objects", stored.map(({ id }) => id).join(", ") || undefined),
  ];
}

/** The descriptions, one for each data set; a redacted one stands for all of them. */
function setsOf(data: unknown, hashes: readonly unknown[]): readonly unknown[] {
  const sets: readonly unknown[] = Array.isArray(data) ? data : [];
  const count = Math.max(1, sets.length, hashes.length);
  return Array.from({ length: count }, (_, at) => (isRedacted(data) ? data : sets[at]));
}

function statementsOfSet(set: unknown, hash: unknown, story: KnownStory): readonly Statement[] {
  const members = membersOf(set);
  const counts = membersOf(members["samples"]);
  const part = (value: unknown): unknown => (isRedacted(set) ? set : value);
  return [
    story.stated("data set", part(members["name"]), ["data", "0", "name"]),
    story.stated("content hash", hash, ["provenance", "data"]),
    ...described.map(([name, label]) => story.stated(label, part(members[name]), ["data", "0", name])),
    ...parts.map(([name, label]) => story.stated(label, part(counts[name]), ["data", "0", "samples"])),
  ];
}

/** The part of the data of the training that it did not see, then the data of each evaluation once. */
export function evaluationDataStatements(
  { described: { provenance }, evaluations }: DocumentSource,
  story: KnownStory,
): readonly Statement[] {
  const { data } = membersOf(provenance);
  const used = new Map(
    evaluations.map((each) => [`${each.data.content} ${each.data.name ?? ""}`, each.data]),
  );
  return [
    ...setsOf(data, []).map((set) => {
      const counts = membersOf(membersOf(set)["samples"]);
      const held = isRedacted(set) ? set : counts["heldOut"];
      return story.stated("held-out samples of the training's data", held, ["data", "0", "samples"]);
    }),
    ...(used.size === 0 ? [statement("data of evaluations", undefined)] : []),
    ...[...used.values()].map(({ name, content, reader, heldOut, from }) =>
      statement(
        "data of evaluations",
        `${content}, ${heldOut} held-out samples, read by ${reader}, ${from}`,
        "recorded",
        name === undefined ? {} : { of: name },
      ),
    ),
  ];
}
