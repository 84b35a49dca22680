/** Formats what a replay says of the members of a story, as two or three lines for people. */
import { nameOfMember, storyMembers } from "../../shared/provenance/story-members.js";
import type { MemberProof } from "../interface/api/fields.js";

const labels = new Map(storyMembers.map((row) => [nameOfMember(row), row.label]));

/** The bound members that people know; the others are hashes of what is listed. */
const usedInputs: readonly string[] = [
  "provenance.engine",
  "provenance.bases",
  "provenance.data",
  "program.bundle",
  "parameters.value",
  "random",
];

/** The words of rows, each once; a member of a later release has its own name. */
function wordsOf(names: readonly string[]): string {
  return [...new Set(names.map((name) => labels.get(name) ?? name))].join(", ");
}

export function proofLines({
  rebuilt,
  bound,
  stated,
  notRebuildable,
}: MemberProof): readonly (readonly [key: string, value: string])[] {
  return [
    ["proved", wordsOf([...rebuilt, ...bound.filter((name) => usedInputs.includes(name))])],
    ...(notRebuildable.length === 0 ? [] : [["not rebuilt here", wordsOf(notRebuildable)] as const]),
    ["only stated", wordsOf(stated)],
  ];
}
