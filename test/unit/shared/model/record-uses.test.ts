/** Record format 2: what it refuses, and which objects and trees a record names. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isStemmaError } from "../../../../shared/errors.js";
import {
  objectsOf,
  smallObjectsOf,
  streamedObjectsOf,
  treesOf,
} from "../../../../shared/model/record-objects.js";
import {
  decodeCheckedRecord,
  decodeSaveRecord,
  encodeSaveRecord,
} from "../../../../shared/model/save-record.js";
import type { RecordUses, SaveRecord } from "../../../../shared/model/model.js";
import { sha256 } from "../../../../shared/tensor/hash.js";
import { vectors } from "./vectors.js";

const [full, engineOnly] = vectors<{ text: string; record: SaveRecord }[]>("save-records-2.json") as [
  { text: string; record: SaveRecord },
  { text: string; record: SaveRecord },
];
const [first] = vectors<{ record: SaveRecord }[]>("short-save-records.json") as [{ record: SaveRecord }];
const invalid = (error: unknown): boolean => isStemmaError(error, "RECORD_INVALID");
const hash = sha256;

describe("format 2", () => {
  it("is refused where format 1 can hold the record, and the reverse", () => {
    assert.throws(() => encodeSaveRecord({ ...first.record, format: 2 }), invalid);
    assert.throws(() => encodeSaveRecord({ ...full.record, format: 1 }), invalid);
    assert.throws(
      () => decodeSaveRecord(Buffer.from(full.text.replace('"format":2', '"format":1'))),
      invalid,
    );
    assert.throws(
      () => decodeSaveRecord(Buffer.from(full.text.replace('"format":2', '"format":3'))),
      invalid,
    );
  });

  const checkpoints = (...iterations: readonly number[]): RecordUses => ({
    checkpoints: iterations.map((iteration) => ({ iteration, tree: hash(`tree ${iteration}`) })),
  });
  const refused: readonly (readonly [string, unknown])[] = [
    ["empty uses", {}],
    ["an empty list of data", { data: [] }],
    ["an empty list of checkpoints", { checkpoints: [] }],
    ["a data set 256 times", { data: Array.from({ length: 256 }, () => hash("a")) }],
    ["a data set twice", { data: [hash("a"), hash("b"), hash("a")] }],
    ["257 data sets", { data: Array.from({ length: 257 }, (_, i) => hash(String(i))) }],
    ["257 checkpoints", checkpoints(...Array.from({ length: 257 }, (_, i) => i))],
    ["checkpoints that descend", checkpoints(5, 3)],
    ["an iteration twice", checkpoints(5, 5)],
    ["a negative iteration", checkpoints(-1)],
    ["an iteration that is not whole", checkpoints(1.5)],
    ["an iteration beyond 2^53", checkpoints(2 ** 53)],
    ["an engine that is not a hash", { engine: "engine.mjs" }],
    ["a tree that is not a hash", { checkpoints: [{ iteration: 1, tree: "0".repeat(63) }] }],
  ];
  for (const [what, uses] of refused)
    it(`is not written with ${what}`, () => {
      assert.throws(() => encodeSaveRecord({ ...full.record, uses: uses as RecordUses }), invalid);
    });

  it("holds 256 checkpoints", () => {
    const record = { ...full.record, uses: checkpoints(...Array.from({ length: 256 }, (_, i) => i * 1000)) };
    assert.deepEqual(decodeSaveRecord(encodeSaveRecord(record)), record);
    assert.deepEqual(decodeCheckedRecord(encodeSaveRecord(record)), record);
  });

  const firstData = /"data":\[("[^"]+")/.exec(full.text)?.[1] ?? assert.fail("the vector has data");
  const alterations: readonly (readonly [string, string, string])[] = [
    ["an unknown member of uses", '"uses":{"', '"uses":{"a":1,"'],
    ["an unknown member of a checkpoint", '{"iteration":0,', '{"a":1,"iteration":0,'],
    ["an iteration as text", '"iteration":0', '"iteration":"0"'],
    ["a missing iteration", '{"iteration":0,"tree"', '{"tree"'],
    ["a list in place of uses", full.text.slice(full.text.indexOf('"uses":') + 7, -1), "[]"],
    ["null in place of uses", full.text.slice(full.text.indexOf('"uses":') + 7, -1), "null"],
    ["one data set 256 times", '"data":[', `"data":[${`${firstData},`.repeat(255)}`],
    ["an object in place of data", '"data":[', '"data":[[],'],
  ];
  for (const [what, from, to] of alterations)
    it(`is not read with ${what}`, () => {
      assert.ok(full.text.includes(from));
      assert.throws(() => decodeSaveRecord(Buffer.from(full.text.replace(from, to))), invalid);
    });
});

describe("objects of a record", () => {
  it("are its own and those it uses, with when each must be there", () => {
    const kinds = objectsOf(full.record).map(({ kind, presence }) => `${kind} ${presence}`);
    assert.deepEqual(kinds, [
      "tree required",
      "architecture required",
      "names required",
      "owner-map required",
      "environment required",
      "measurements required",
      "provenance required",
      "openings redactable",
      "attachment required",
      "tree required",
      "tree required",
      "tree required",
      "engine approved",
      "recipe required",
      "data required",
      "data required",
    ]);
    assert.deepEqual(
      streamedObjectsOf(full.record).map(({ kind }) => kind),
      ["engine", "recipe", "data", "data"],
    );
    assert.deepEqual(
      [...smallObjectsOf(full.record), ...streamedObjectsOf(full.record)],
      objectsOf(full.record),
    );
  });

  it("includes every tree: model, checkpoints, optimizer", () => {
    assert.deepEqual(treesOf(full.record), [
      { part: "model", tree: full.record.objects.tree },
      { part: "checkpoint", iteration: 0, tree: hash("tree 0") },
      { part: "checkpoint", iteration: 250, tree: hash("tree 250") },
      { part: "checkpoint", iteration: 500, tree: hash("tree 250") },
      { part: "optimizer", tree: hash("optimizer tree") },
    ]);
    assert.deepEqual(treesOf(engineOnly.record), [{ part: "model", tree: engineOnly.record.objects.tree }]);
    assert.deepEqual(treesOf(first.record), [{ part: "model", tree: first.record.objects.tree }]);
  });
});
