/** Versions and claims of a line by number, and each generation's newest. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { LineIndex } from "../../../../../server/fleet/ingest/uploads/line-index.js";
import type { ClaimSummary } from "../../../../../server/storage/repository/claim.js";
import { applyFact } from "../../../../../server/storage/repository/state/apply-fact.js";
import {
  headOfLine,
  versionNumbered,
} from "../../../../../server/storage/repository/state/select-versions.js";
import { emptyState } from "../../../../../server/storage/repository/state/state.js";
import {
  indexVersion,
  versionIndexes,
} from "../../../../../server/storage/repository/state/version-table.js";
import type { SaveRecord } from "../../../../../shared/model/model.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";

const idOf = (name: string): Hash => sha256(name);
const recordOf = (sequence: number): SaveRecord =>
  ({ device: "car", line: "soh", sequence, bases: [] }) as unknown as SaveRecord;

function fleet(claims: readonly ClaimSummary[] = []) {
  const records = new Map<Hash, SaveRecord>();
  const table = { state: emptyState(), records, damaged: new Map(), ...versionIndexes() };
  const add = (name: string, sequence: number, generation = 1): void => {
    const { state } = table;
    const versionId = idOf(name);
    const version = (state.names.last("car")?.order ?? 0) + 1;
    const before = state.length;
    applyFact(state, before, {
      ...{ type: "recorded", atMs: 0, versionId, name: "car", version, generation, storedBytes: 0 },
      ...{ tensorBytes: 0, ownBytes: 0 },
    });
    records.set(versionId, recordOf(sequence));
    indexVersion(table, state.versions.get(versionId)!, recordOf(sequence));
  };
  const lines = new LineIndex({
    claims: () => claims,
    numbered: (place, sequence) => versionNumbered(table, place, sequence),
    headOfLine: (place, generation) => headOfLine(table, place, generation),
  });
  return { add, lines };
}

test("a generation that counts from the start does not hide what the one before it sent last", () => {
  const { add, lines } = fleet();
  add("a1", 1);
  add("a9", 9);
  add("a2", 2);
  add("b1", 1, 2);
  assert.equal(lines.head("car", "soh", 1)?.versionId, idOf("a9"));
  assert.equal(lines.head("car", "soh", 2)?.versionId, idOf("b1"));
  assert.equal(lines.find("car", "soh", 1)?.versionId, idOf("b1"));
  assert.equal(lines.find("car", "soh", 3), undefined);
  assert.equal(lines.head("car", "soh", 3), undefined);
  assert.equal(lines.head("car", "other", 1), undefined);
});

test("a claim counts until its number is a version's", () => {
  const claim = (name: string, sequence: number, position: number): ClaimSummary =>
    ({ versionId: idOf(name), position, generation: 1, record: recordOf(sequence) }) as ClaimSummary;
  const { add, lines } = fleet([claim("c5", 5, -1)]);
  add("a4", 4);
  assert.equal(lines.head("car", "soh", 1)?.versionId, idOf("c5"));
  lines.claimed(claim("c6", 6, -1));
  assert.equal(lines.find("car", "soh", 6)?.versionId, idOf("c6"));
  assert.equal(lines.find("car", "soh", 6)?.generation, 1);
  add("a6", 6);
  assert.equal(lines.head("car", "soh", 1)?.versionId, idOf("a6"));
  assert.equal(lines.find("car", "soh", 5)?.versionId, idOf("c5"));
});
