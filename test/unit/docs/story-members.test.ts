/** The table of a story's members in docs/provenance.md is the one in the code. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { nameOfMember, storyMembers, type StoryMember } from "../../../shared/provenance/story-members.js";
import { readPage } from "../../helpers/markdown.js";

/** Members of one place and one kind in one line; those that stored samples do not carry apart. */
function lines(rows: readonly Pick<StoryMember, "path" | "kind" | "isDescription">[]): readonly string[] {
  const groups = new Map<string, string[]>();
  for (const row of rows) {
    const parts = nameOfMember(row).split(".");
    const key = `${parts.slice(0, -1).join(".")} | ${row.kind}${row.isDescription === true ? " †" : ""}`;
    const name = row.path.at(-1) === "*" ? row.path.join(".") : (parts.at(-1) ?? "");
    groups.set(key, [...(groups.get(key) ?? []), `\`${name}\``]);
  }
  return [...groups].map(([key, names]) => {
    const [place, kind] = key.split(" | ");
    return `| ${place === "" ? "the story" : `\`${place}\``} | ${kind} | ${names.join(", ")} |`;
  });
}

for (const [whose, rows] of [
  ["an engine's story", storyMembers],
  [
    "a program's story, where they differ",
    storyMembers.flatMap(({ path, ofProgram }) =>
      ofProgram === undefined ? [] : [{ path, kind: ofProgram }],
    ),
  ],
] as const)
  test(`the documents have the table of members of ${whose}`, () => {
    const page = readPage("docs/provenance.md");
    const expected = lines(rows).join("\n");
    assert.ok(page.includes(`|---|---|---|\n${expected}\n`), `write in docs/provenance.md:\n${expected}`);
  });
