/** Versions of which something is true, and what they add up to, are those that a look at all of them finds. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { applyFact } from "../../../../../../server/storage/repository/state/apply-fact.js";
import {
  headOfLine,
  selectVersions,
  versionNumbered,
  type Selection,
} from "../../../../../../server/storage/repository/state/select-versions.js";
import { emptyState } from "../../../../../../server/storage/repository/state/state.js";
import type { VersionState } from "../../../../../../server/storage/repository/state/version-state.js";
import {
  countVersions,
  indexVersion,
  versionIndexes,
} from "../../../../../../server/storage/repository/state/version-table.js";
import type { Fact } from "../../../../../../shared/journal/fact.js";
import type { SaveRecord } from "../../../../../../shared/model/model.js";
import { sha256 } from "../../../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../../../shared/tensor/tensor.js";
import { testSeed } from "../../../../../helpers/crash-states.js";
import { seededNumbers } from "../../../../../helpers/manual-clock.js";

const id = sha256("any");
const because = "x";
const expected: Readonly<Record<Selection & string, (version: VersionState) => boolean>> = {
  all: () => true,
  unsettled: ({ released, retired }) => released === undefined && retired === undefined,
  evaluated: ({ evaluations }) => evaluations !== undefined,
  replayed: ({ replayed }) => replayed !== undefined,
  dropped: ({ dropped }) => dropped !== undefined,
};

test("selections, numbers of lines and totals, after random facts", () => {
  const seed = testSeed();
  const random = seededNumbers(seed);
  const below = (limit: number): number => Math.floor(random() * limit);
  const records = new Map<Hash, SaveRecord>();
  const table = { state: emptyState(), records, damaged: new Map<Hash, unknown>(), ...versionIndexes() };
  const { state } = table;
  const apply = (fact: Fact): void => {
    applyFact(state, state.length, fact);
  };
  const record = (n: number): void => {
    const versionId = sha256(`v${n}`);
    const name = `m${below(3)}`;
    const version = (state.names.last(name)?.order ?? 0) + 1;
    apply({
      ...{ type: "recorded", atMs: n, versionId, name, version, generation: 1 + below(2) },
      ...{ tensorBytes: below(100), ownBytes: 0, storedBytes: 0 },
    });
    const place = { device: `car-${below(2)}`, line: `l${below(2)}`, sequence: 1 + below(30) };
    records.set(versionId, { ...place, bases: [] } as unknown as SaveRecord);
    indexVersion(table, state.versions.get(versionId)!, records.get(versionId)!);
  };
  const changes: readonly ((versionId: Hash, atMs: number) => Fact)[] = [
    (versionId, atMs) => ({ type: "stored", atMs, versionId }),
    (versionId, atMs) => ({ type: "released", atMs, versionId, because }),
    (versionId, atMs) => ({ type: "retired", atMs, versionId, because }),
    (versionId, atMs) => ({ type: "evaluated", atMs, versionId, object: sha256(String(below(3))) }),
    (versionId, atMs) => ({
      ...{ type: "replayed", atMs, versionId, because, engineId: id, grade: "bit-exact" },
      verdict: random() < 0.5 ? "proved" : "refuted",
    }),
    (versionId, atMs) => ({
      ...{
        type: "dropped",
        critical: true,
        atMs,
        versionId,
        because,
        base: null,
        engine: id,
        engineId: id,
        data: null,
      },
      replayMs: 1,
    }),
    (versionId, atMs) => ({ type: "kept", atMs, versionId, because }),
  ];
  for (let n = 0; n < 400; n++) {
    if (random() < 0.3) record(n);
    else apply(changes[below(changes.length)]!(sha256(`v${below(n + 1)}`), n));
    if (n % 20 > 0) continue;
    const all = [...state.versions.values()];
    const until = below(state.length + 1);
    const look = (selection: Selection, range = {}): readonly Hash[] =>
      [...selectVersions(table, selection, range)].map(({ versionId }) => versionId);
    for (const [selection, isTrue] of Object.entries(expected)) {
      const ids = all.filter(isTrue).map(({ versionId }) => versionId);
      const early = all.filter((each) => isTrue(each) && each.position < until).map((each) => each.versionId);
      const found = look(selection as Selection);
      // Dropped ones come in the order in which they were.
      if (selection !== "dropped") assert.deepEqual(found, ids, `${selection}, seed ${seed}`);
      assert.deepEqual(found.toSorted(), ids.toSorted(), `${selection}, seed ${seed}`);
      assert.deepEqual(look(selection as Selection, { reverse: true }), found.toReversed());
      assert.deepEqual(look(selection as Selection, { until }).toSorted(), early.toSorted());
      const late = ids.filter((versionId) => !early.includes(versionId));
      assert.deepEqual(look(selection as Selection, { from: until }).toSorted(), late.toSorted());
    }
    const live = all.filter(({ retired }) => retired === undefined);
    const bytes = (versions: readonly VersionState[]): number =>
      versions.reduce((sum, { tensorBytes }) => sum + tensorBytes, 0);
    const dropped = live.filter(expected.dropped);
    assert.deepEqual(state.live, {
      tensorBytes: bytes(live),
      dropped: { versions: dropped.length, tensorBytes: bytes(dropped) },
    });
    assert.deepEqual([countVersions(table), countVersions(table, true)], [live.length, all.length]);
    const place = { device: `car-${below(2)}`, line: `l${below(2)}` };
    const ofLine = all.filter(({ versionId }) => {
      const { device, line } = records.get(versionId)!;
      return device === place.device && line === place.line;
    });
    const sequenceOf = ({ versionId }: VersionState): number => records.get(versionId)!.sequence;
    assert.deepEqual(
      look({ device: place.device }),
      all
        .filter(({ versionId }) => records.get(versionId)!.device === place.device)
        .map((each) => each.versionId),
    );
    const sequence = 1 + below(30);
    const numbered = ofLine.findLast((version) => sequenceOf(version) === sequence);
    assert.equal(versionNumbered(table, place, sequence)?.versionId, numbered?.versionId, `seed ${seed}`);
    const sent = ofLine.filter(({ generation }) => generation === 1);
    const head = sent.findLast((version) => sequenceOf(version) === Math.max(...sent.map(sequenceOf)));
    assert.equal(headOfLine(table, place, 1)?.versionId, head?.versionId, `seed ${seed}`);
  }
});
