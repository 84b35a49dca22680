/** The table of a story's members in docs/provenance.md is the one in the code. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { nameOfMember, storyMembers } from "../../../shared/provenance/story-members.js";
import { readPage } from "../../helpers/markdown.js";

/** Members of one place and one kind in one line; those that stored samples do not carry apart. */
function lines(): readonly string[] {
  const groups = new Map<string, string[]>();
  for (const row of storyMembers) {
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

test("the documents have the table of members", () => {
  const page = readPage("docs/provenance.md");
  assert.ok(
    page.includes(`|---|---|---|\n${lines().join("\n")}\n`),
    `write in docs/provenance.md:\n${lines().join("\n")}`,
  );
});
