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
  "average.rule",
  "average.weights",
  "random",
];

/** True if a replay made the member again, or used the very same. */
export function isProvedMember({ rebuilt, bound }: MemberProof, name: string): boolean {
  return rebuilt.includes(name) || (bound.includes(name) && usedInputs.includes(name));
}

/** The words of rows, each once; a member of a later release has its own name. */
function wordsOf(names: readonly string[]): string {
  return [...new Set(names.map((name) => labels.get(name) ?? name))].join(", ");
}

export function proofLines(proof: MemberProof): readonly (readonly [key: string, value: string])[] {
  const { rebuilt, bound, stated, notRebuildable } = proof;
  return [
    ["proved", wordsOf([...rebuilt, ...bound].filter((name) => isProvedMember(proof, name)))],
    ...(notRebuildable.length === 0 ? [] : [["not rebuilt here", wordsOf(notRebuildable)] as const]),
    ["only stated", wordsOf(stated)],
  ];
}
