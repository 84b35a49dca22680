/** The table of a story's members: every member that a decoder takes has a row, and every row is reached. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { objectFields, recordFields } from "../../../../shared/model/save-record.js";
import { provenanceFields } from "../../../../shared/provenance/encode-provenance.js";
import { storyFields } from "../../../../shared/provenance/exported-story.js";
import { committedMembers } from "../../../../shared/provenance/provenance.js";
import { memberAt, nameOfMember, storyMembers } from "../../../../shared/provenance/story-members.js";

/** Members that are only places of others. */
const containers: readonly string[] = [
  "record.objects",
  "record.uses",
  "parameters",
  "data",
  "program",
  "average",
];
/** Members of a story's file whose own members have rows, and its format. */
const opened: readonly string[] = ["format", "record", "provenance", "openings", "environment", "metadata"];

const paths: readonly (readonly string[])[] = [
  ...recordFields.map((name) => ["record", name]),
  ...[...objectFields, "attachments"].map((name) => ["record", "objects", name]),
  ...["engine", "recipe", "data", "optimizer", "checkpoints"].map((name) => ["record", "uses", name]),
  ...provenanceFields.map((name) => ["provenance", name]),
  ...committedMembers.map((name) => [name]),
  ...storyFields.filter((name) => !opened.includes(name)).map((name) => [name]),
];

test("every member that the decoders of a story take has a row, or holds members that have", () => {
  for (const path of paths) {
    const name = path.join(".");
    const isContainer = containers.includes(name);
    assert.equal(memberAt(path) === undefined, isContainer, `${name} has no row in story-members.ts`);
    if (isContainer) assert.ok(storyMembers.some((row) => nameOfMember(row).startsWith(`${name}.`)));
  }
});

test("every row is found by its path, and has a name of its own", () => {
  for (const row of storyMembers)
    assert.equal(memberAt(row.path.map((part) => (part === "*" ? "any" : part))), row, nameOfMember(row));
  assert.equal(new Set(storyMembers.map(nameOfMember)).size, storyMembers.length);
  assert.equal(memberAt(["parameters", "member.epochs", "value"])?.kind, "rebuilt");
  assert.equal(memberAt(["program", "job"])?.ofProgram, "rebuilt");
  assert.equal(memberAt(["later"]), undefined);
});
