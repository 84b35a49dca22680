/**
 * A story as one tree of members, by the paths of the table of members (shared/provenance/story-members.ts), and what
 * a replay says of each of them. Pure.
 */
import { isAverageStory } from "../../../shared/average/average-record.js";
import type { MeasuredReplay } from "../../../shared/journal/facts/version-facts.js";
import type { ModelMetadata } from "../../../shared/model/metadata.js";
import type { SaveRecord } from "../../../shared/model/model.js";
import { valueOf, type OpenedProvenance } from "../../../shared/provenance/openings.js";
import { committedMembers } from "../../../shared/provenance/provenance.js";
import {
  memberAt,
  nameOfMember,
  storyMembers,
  type StoryMember,
} from "../../../shared/provenance/story-members.js";
import type { MemberProof } from "../../interface/api/fields.js";

export type DescriptionSource = NonNullable<MeasuredReplay["description"]>;
export type MemberTree = Readonly<Record<string, unknown>>;

export interface StoryParts {
  readonly record?: SaveRecord | undefined;
  readonly opened: OpenedProvenance;
  readonly metadata?: ModelMetadata | undefined;
  readonly environment?: Readonly<Record<string, string>> | undefined;
}

/** Redacted members are absent. */
export function treeOfStory({ record, opened, metadata, environment }: StoryParts): MemberTree {
  const names = new Set([...committedMembers, ...Object.keys(opened.openings)]);
  return {
    record,
    provenance: isAverageStory(opened) ? withoutData(opened) : opened.provenance,
    metadata,
    environment,
    ...Object.fromEntries([...names].map((name) => [name, valueOf(opened, name)])),
  };
}

/** An average has no data of its own, so nothing is said of them. */
function withoutData({ provenance: { data: _, ...others } }: OpenedProvenance): object {
  return others;
}

/** True if a program of the user's own made the version, and its owner has it recorded. */
export function isProgramStory({ provenance: { engine, committed } }: OpenedProvenance): boolean {
  return engine === undefined && Object.hasOwn(committed, "program");
}

/** False where this replay has nothing that the member could be compared with. */
export function isComparable({ isDescription }: StoryMember, description: DescriptionSource): boolean {
  return isDescription !== true || description !== "none";
}

/** True if the member is only what a device says of its own samples, whatever it was compared with. */
function isSentStatement({ isDescription }: StoryMember, description: DescriptionSource): boolean {
  return isDescription === true && description === "sent";
}

/**
 * Sorts the members of a story that a replay proved by their kinds, by the names of their rows. Members of a later
 * release, which no row has, are stated.
 */
export function proofOfMembers(
  parts: StoryParts,
  { description }: { readonly description: DescriptionSource },
): MemberProof {
  const found = new Set<StoryMember | string>();
  collectRows([], treeOfStory(parts), found);
  const { provenance, openings } = parts.opened;
  const kindOf = (row: StoryMember): StoryMember["kind"] =>
    (isProgramStory(parts.opened) ? row.ofProgram : undefined) ?? row.kind;
  const redacted = Object.keys(provenance.committed).filter((name) => !Object.hasOwn(openings, name));
  const rows = [
    ...storyMembers.filter((row) => found.has(row)),
    ...storyMembers.filter(({ path: [root = ""] }) => redacted.includes(root)),
  ];
  const named = (isOf: (row: StoryMember) => boolean): readonly string[] =>
    rows.filter(isOf).map(nameOfMember);
  const isHere = (row: StoryMember): boolean =>
    !redacted.includes(row.path[0] ?? "") && isComparable(row, description);
  return {
    rebuilt: named((row) => kindOf(row) === "rebuilt" && isHere(row) && !isSentStatement(row, description)),
    bound: named((row) => kindOf(row) === "bound"),
    stated: [
      ...named((row) => (kindOf(row) === "stated" || isSentStatement(row, description)) && isHere(row)),
      ...[...found].filter((row) => typeof row === "string"),
    ],
    notRebuildable: named((row) => kindOf(row) !== "bound" && !isHere(row)),
  };
}

function collectRows(path: readonly string[], value: unknown, found: Set<StoryMember | string>): void {
  if (value === undefined) return;
  const row = memberAt(path);
  if (row !== undefined) {
    found.add(row);
    return;
  }
  const isInside = storyMembers.some(
    (each) =>
      each.path.length > path.length &&
      path.every((part, at) => each.path[at] === "*" || each.path[at] === part),
  );
  if (isInside && typeof value === "object" && value !== null)
    for (const [name, member] of Object.entries(value)) collectRows([...path, name], member, found);
  else found.add(path.join("."));
}
