/** The only path into the journal: batches, order, and refusals that affect only the refused fact. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { StemmaError } from "../../../../../shared/errors.js";
import type { Fact } from "../../../../../shared/journal/fact.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import { CommitQueue, type Submission } from "../../../../../server/storage/repository/commit-queue.js";
import { emptyState } from "../../../../../server/storage/repository/state/state.js";

const id = (n: number): Hash => n.toString(16).padStart(64, "0") as Hash;

/** A store of ids and a journal in memory; `beforeLock` runs where a collection could come between. */
function setup(
  present: Iterable<Hash> = [],
  { beforeLock = () => undefined, failing = [] as (() => Error | undefined)[] } = {},
) {
  const ids = new Set(present);
  const appends: (readonly Fact[])[] = [];
  const facts: Fact[] = [];
  const state = emptyState();
  const objects = {
    has: (one: Hash) => ids.has(one),
    async commitReferences<T>(needed: Iterable<Hash>, action: () => Promise<T>): Promise<T> {
      beforeLock();
      if ([...needed].some((one) => !ids.has(one))) throw new StemmaError("REFERENCE_MISSING", "gone");
      return await action();
    },
  };
  const journal = {
    append: async (batch: readonly Fact[]): Promise<readonly number[]> => {
      await new Promise<void>((resolve) => {
        setImmediate(resolve);
      });
      const error = failing.shift()?.();
      if (error !== undefined) throw error;
      appends.push(batch);
      return batch.map((fact) => facts.push(fact) - 1);
    },
  };
  return { ids, appends, facts, state, queue: new CommitQueue(objects, journal, state) };
}
const record = (n: number, name = "m", requiredObjects: readonly Hash[] = []): Submission => ({
  requiredObjects,
  decide: (draft) =>
    draft.state.versions.has(id(n)) || draft.recordedHere.has(id(n))
      ? []
      : [{ type: "recorded", atMs: 0, versionId: id(n), name, version: draft.takeVersion(name) }],
});

test("facts that wait together are written together, numbered in order, and applied before any caller gets its result", async () => {
  const { queue, appends, state } = setup();
  const results = await Promise.all(
    Array.from({ length: 50 }, (_, n) =>
      queue.submit({
        ...record(n, n % 2 === 0 ? "a" : "b"),
        onApplied: () => {
          assert.ok(state.versions.has(id(n)));
        },
      }),
    ),
  );
  assert.deepEqual(
    results.flat(),
    Array.from({ length: 50 }, (_, n) => n),
  );
  assert.equal(appends.length, 1);
  assert.deepEqual(
    [...state.names.of("b")].map((versionId) => state.versions.get(versionId)?.version),
    Array.from({ length: 25 }, (_, n) => n + 1),
  );
});

test("the same version twice in a batch is one fact", async () => {
  const { queue, facts } = setup();
  const [first, second] = await Promise.all([queue.submit(record(1)), queue.submit(record(1))]);
  assert.deepEqual([first, second, facts.length], [[0], [], 1]);
});

test("a refused fact does not affect the others, and gets no number", async () => {
  const { queue, state } = setup([id(100)]);
  const results = await Promise.allSettled([
    queue.submit(record(1, "m", [id(100)])),
    queue.submit(record(2, "m", [id(101)])),
    queue.submit({
      requiredObjects: [],
      decide: () => {
        throw new StemmaError("NAME_INVALID", "no");
      },
    }),
    queue.submit(record(3)),
  ]);
  assert.deepEqual(
    results.map(({ status }) => status),
    ["fulfilled", "rejected", "rejected", "fulfilled"],
  );
  assert.equal(
    ((results[1] as PromiseRejectedResult).reason as { code?: unknown }).code,
    "REFERENCE_MISSING",
  );
  assert.deepEqual(
    [...state.versions.values()].map(({ version }) => version),
    [1, 2],
  );
});

test("a collection between the check and the lock refuses only facts whose objects it removed", async () => {
  let collected = false;
  const context = setup([id(100), id(101)], {
    beforeLock: () => {
      if (!collected) {
        collected = true;
        context.ids.delete(id(101));
      }
    },
  });
  const results = await Promise.allSettled([
    context.queue.submit(record(1, "m", [id(100)])),
    context.queue.submit(record(2, "m", [id(101)])),
  ]);
  assert.deepEqual(
    results.map(({ status }) => status),
    ["fulfilled", "rejected"],
  );
  assert.equal(context.facts.length, 1);
});

test("a full disk fails its batch; the next continues from the same state", async () => {
  const { queue, state } = setup([], { failing: [() => new StemmaError("DISK_FULL", "full")] });
  await assert.rejects(queue.submit(record(1)), { code: "DISK_FULL" });
  assert.equal(state.versions.size, 0);
  assert.deepEqual(await queue.submit(record(1)), [0]);
  assert.equal(state.versions.get(id(1))?.version, 1);
});

test("a fact that must be decided alone sees everything before it and nothing concurrent", async () => {
  const { queue, appends, state } = setup();
  const seen: number[] = [];
  const alone: Submission = {
    requiredObjects: [],
    isExclusive: true,
    decide: (draft) => {
      seen.push(draft.state.versions.size);
      return [{ type: "backup", atMs: 0, position: 0, location: "" }];
    },
  };
  await Promise.all([
    queue.submit(record(1)),
    queue.submit(record(2)),
    queue.submit(alone),
    queue.submit(record(3)),
    queue.submit(alone),
  ]);
  assert.deepEqual(seen, [2, 3]);
  assert.deepEqual(
    appends.map(({ length }) => length),
    [2, 1, 1, 1],
  );
  assert.equal(state.length, 5);
});

test("every caller gets a result, whenever it calls", async () => {
  const { queue, facts } = setup();
  let submitted = 0;
  const chain = async (n: number): Promise<void> => {
    for (let step = 0; step < 30; step++) {
      for (let turns = (n * 7 + step * 3) % 5; turns > 0; turns--) await Promise.resolve();
      await queue.submit(record(1000 * n + step, `m${n}`));
      submitted++;
    }
  };
  await Promise.all(Array.from({ length: 8 }, (_, n) => chain(n)));
  await queue.settled();
  assert.deepEqual([submitted, facts.length], [240, 240]);
});
