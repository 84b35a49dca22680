/** What a device need not send: only what it provably had, and only what can be read. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  heldOptimizer,
  heldVersions,
  provenBy,
  tensorsOf,
  type KnownToDevice,
} from "../../../../../server/fleet/ingest/downloads/held-versions.js";
import { StemmaError } from "../../../../../shared/errors.js";
import type { Leaf } from "../../../../../shared/model/model.js";
import { encodeTree } from "../../../../../shared/model/tree-object.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import { maxReferences } from "../../../../../shared/wire/limits.js";

const id = (name: string): Hash => sha256(name);
const leaf = (name: string): Leaf => ({ path: name, dtype: "F32", shape: [1], tensor: id(name) });

const leavesOf = (name: string): readonly Leaf[] => [leaf(`${name} shared`), leaf(`${name} tensor`)];

interface Stored {
  readonly bases?: readonly string[];
  readonly state?: string;
  /** The model's tensor that is not stored. */
  readonly isIncomplete?: boolean;
  readonly optimizer?: boolean;
  /** Reading its optimizer's tree fails with this. */
  readonly unreadable?: Error;
  /** Reading its tree fails with this. */
  readonly fails?: Error;
}

/**
 * Versions by name, each with the tensors `NAME shared` and `NAME tensor`.
 * @param history which of them the device sent, and which it was given
 */
function repositoryOf(
  versions: Readonly<Record<string, Stored>>,
  { sent = [], given = [] }: { readonly sent?: readonly string[]; readonly given?: readonly string[] } = {},
): KnownToDevice {
  const byId = new Map(Object.entries(versions).map(([name, stored]) => [id(name), { name, ...stored }]));
  const missing = new Set(
    [...byId.values()].flatMap(({ name, isIncomplete }) => (isIncomplete ? [id(`${name} tensor`)] : [])),
  );
  const trees = new Map(
    [...byId.values()].flatMap(({ name, fails, unreadable }) => [
      [id(`${name} tree`), fails ?? encodeTree("opaque", leavesOf(name))] as const,
      [id(`${name} optimizer`), unreadable ?? encodeTree("opaque", [leaf(`${name} moment`)])] as const,
    ]),
  );
  const has = (among: readonly string[]) => (_device: string, version: Hash) =>
    among.some((name) => id(name) === version);
  return {
    hasSent: has(sent),
    hasHad: has([...sent, ...given]),
    assignment: () => undefined,
    get: (version: Hash) => {
      const found = byId.get(version);
      if (found === undefined) return undefined;
      const { name, bases = [], state = "stored", optimizer = false } = found;
      const uses = optimizer ? { optimizer: id(`${name} optimizer`) } : undefined;
      const record = { bases: bases.map(id), kind: "opaque", objects: { tree: id(`${name} tree`) }, uses };
      return { versionId: version, state, record };
    },
    objects: {
      has: (object: Hash) => !missing.has(object),
      read: (_kind: string, object: Hash) => {
        const bytes = trees.get(object);
        return bytes instanceof Uint8Array ? Promise.resolve(bytes) : Promise.reject(bytes ?? new Error("?"));
      },
    },
  } as unknown as KnownToDevice;
}

const announced = (...bases: string[]) => ({ device: "car", line: "a", bases: bases.map(id) });
const names = (ids: Iterable<Hash>, among: readonly string[]) => {
  const found = new Set(ids);
  return among.filter((name) => found.has(id(name)));
};

describe("what a device provably had", () => {
  const versions = { base: { bases: ["older"], optimizer: true }, older: {}, foreign: {} };
  const all = ["base tensor", "older tensor", "foreign tensor", "base moment"];

  it("is what it sent, with the state of its training; of what it was given, only the model", async () => {
    const own = await provenBy(repositoryOf(versions, { sent: ["base", "older"] }), announced("base"));
    assert.deepEqual(names(own.objects, all), ["base tensor", "older tensor", "base moment"]);
    assert.deepEqual(
      own.versions.map(({ versionId }) => versionId),
      [id("base"), id("older")],
    );
    assert.equal(own.optimizer?.versionId, id("base"));
    for (const name of ["base", "base tree", "base shared", "base optimizer"])
      assert.ok(own.objects.has(id(name)), name);
    const given = await provenBy(repositoryOf(versions, { given: ["base", "older"] }), announced("base"));
    assert.deepEqual(names(given.objects, all), ["base tensor", "older tensor"]);
    assert.equal(given.optimizer, undefined);
  });

  it("is nothing that it only names", async () => {
    const none = await provenBy(repositoryOf(versions), announced("base", "foreign"), id("older"));
    assert.deepEqual([none.objects.size, none.versions, none.optimizer], [0, [], undefined]);
    const other = await provenBy(repositoryOf(versions, { sent: ["base"] }), announced("base", "foreign"));
    assert.deepEqual(
      names(other.objects, all),
      ["base tensor", "base moment"],
      "not even a base of its base",
    );
  });

  it("is its predecessor's, too, against which nothing is coded", async () => {
    const proven = await provenBy(repositoryOf(versions, { sent: ["older"] }), announced(), id("older"));
    assert.deepEqual(names(proven.objects, all), ["older tensor"]);
    assert.deepEqual(proven.versions, []);
  });

  it("is its model also where the state of its training cannot be read", async () => {
    const broken = (unreadable: Error) =>
      provenBy(repositoryOf({ base: { optimizer: true, unreadable } }, { sent: ["base"] }), {
        ...announced(),
        successorOf: id("base"),
      });
    const { objects } = await broken(new StemmaError("OBJECT_HASH_MISMATCH", "no"));
    assert.deepEqual(names(objects, ["base", "base tensor", "base optimizer", "base moment"]), [
      "base",
      "base tensor",
      "base optimizer",
    ]);
    await assert.rejects(() => broken(new TypeError("no")), TypeError);
  });

  it("is looked for in a bounded number of versions", async () => {
    const many = Array.from({ length: maxReferences + 5 }, (_, n) => `v${n}`);
    const repository = repositoryOf(Object.fromEntries(many.map((name) => [name, {}])), { sent: many });
    const { versions: found } = await provenBy(repository, announced(...many, ...many));
    assert.deepEqual(
      found.map(({ versionId }) => versionId),
      many.slice(0, maxReferences).map(id),
    );
  });

  it("is not what cannot be read, which it sends again; a fault of this program is told", async () => {
    const broken = (fails: Error) =>
      provenBy(repositoryOf({ base: { fails } }, { sent: ["base"] }), announced("base"));
    const none = await broken(new StemmaError("OBJECT_HASH_MISMATCH", "no"));
    assert.deepEqual([none.objects.size, none.versions], [0, []]);
    await assert.rejects(() => broken(new TypeError("no")), TypeError);
  });
});

describe("what a transfer may be coded against", () => {
  it("is complete here and not retired", async () => {
    const repository = repositoryOf({
      whole: {},
      retired: { state: "retired" },
      incomplete: { isIncomplete: true },
    });
    const held = await heldVersions(repository, ["retired", "whole", "incomplete", "unknown"].map(id));
    assert.deepEqual(
      held.map(({ versionId }) => versionId),
      [id("whole")],
    );
    const sent = { sent: ["retired", "incomplete"] };
    for (const name of sent.sent) {
      const proven = await provenBy(
        repositoryOf({ retired: { state: "retired" }, incomplete: { isIncomplete: true } }, sent),
        announced(name),
      );
      assert.deepEqual(proven.versions, [], name);
      assert.ok(proven.objects.has(id(`${name} tensor`)), "it still had it");
    }
  });

  it("is an optimizer's state only of a version that has one", async () => {
    const repository = repositoryOf({
      trained: { optimizer: true },
      plain: {},
      retired: { optimizer: true, state: "retired" },
    });
    assert.deepEqual(
      tensorsOf(await heldVersions(repository, [id("plain"), id("trained")])),
      new Set(["plain", "trained"].flatMap(leavesOf).map(({ tensor }) => tensor)),
    );
    assert.deepEqual((await heldOptimizer(repository, id("trained")))?.leaves, [leaf("trained moment")]);
    for (const name of ["plain", "retired", "unknown"])
      assert.equal(await heldOptimizer(repository, id(name)), undefined, name);
  });
});
