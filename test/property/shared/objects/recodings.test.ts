/**
 * Any graph of related tensors is recoded and collected in any order, and reopened in between: every live tensor
 * is read back bit for bit, no live tensor is removed, and a collection frees what its plan predicted.
 */
import assert from "node:assert/strict";
import { it } from "node:test";
import fc from "fast-check";
import "../../../helpers/property-seed.js";
import { isStemmaError } from "../../../../shared/errors.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { decodingThreads } from "../../../../shared/objects/decoding/decoding-threads.js";
import { memoryStore } from "../../../../shared/objects/memory-store.js";
import type { CodedTensor, ObjectPruner } from "../../../../shared/objects/object-store.js";
import { openPackStore } from "../../../../shared/objects/pack-store.js";
import type { Hash, Tensor } from "../../../../shared/tensor/tensor.js";
import { codedAgainst, idOfTensor, memberOf, readBack, writePack } from "../../../helpers/coded-tensors.js";
import { manualClock, seededRandom } from "../../../helpers/manual-clock.js";
import { depth } from "../../../helpers/test-depth.js";

const count = 9;

/** Tensors of one shape, and how they are coded against each other. */
class Related {
  readonly tensors: readonly Tensor[];
  readonly ids: readonly Hash[];
  readonly #codings = new Map<string, CodedTensor>();
  constructor(shape: readonly number[]) {
    this.tensors = Array.from({ length: count }, (_, i) => memberOf(Math.floor(i / 5), i % 5, shape));
    this.ids = this.tensors.map(idOfTensor);
  }

  codingOf(
    tensor: number,
    base: number | undefined,
    previous: number | undefined,
    inPlanes: boolean,
  ): CodedTensor {
    const key = [tensor, base, previous, inPlanes].join();
    const { tensors } = this;
    let found = this.#codings.get(key);
    if (found === undefined)
      this.#codings.set(
        key,
        (found = codedAgainst(
          tensors[tensor]!,
          base === undefined ? undefined : tensors[base],
          previous === undefined ? undefined : tensors[previous],
          inPlanes ? "planes" : "packed",
        )),
      );
    return found;
  }
}

const which = fc.nat({ max: count - 1 });
const written = fc.record({
  tensor: which,
  base: fc.option(which, { nil: undefined }),
  previous: fc.option(which, { nil: undefined }),
  inPlanes: fc.boolean(),
  raw: fc.boolean(),
});
const step = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("write" as const),
      recode: fc.boolean(),
      parts: fc.array(written, { minLength: 1, maxLength: 4 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("write-at-once" as const),
      recode: fc.boolean(),
      parts: fc.array(written, { minLength: 2, maxLength: 4 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("collect" as const),
      live: fc.array(which, { maxLength: 6 }),
      between: fc.array(written, { maxLength: 2 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("reopen" as const), withCache: fc.boolean() }) },
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;
type Part = typeof written extends fc.Arbitrary<infer T> ? T : never;

/** Error codes that a store may throw for an encoding that does not fit its content. */
const refusals = ["REFERENCE_MISSING", "CHAIN_CYCLIC", "CHAIN_TOO_LONG"] as const;

/** Writes the parts that the store accepts, and returns those that are certainly stored now. */
async function write(
  store: ObjectPruner,
  related: Related,
  parts: readonly Part[],
  recode: boolean,
): Promise<number[]> {
  const given = parts.map(({ tensor, base, previous, inPlanes, raw }): Tensor | CodedTensor =>
    raw
      ? related.tensors[tensor]!
      : related.codingOf(
          tensor,
          base === tensor ? undefined : base,
          previous === tensor ? undefined : previous,
          inPlanes,
        ),
  );
  try {
    await writePack(store, given, { recode });
    return parts.map(({ tensor }) => tensor);
  } catch (error) {
    assert.ok(
      refusals.some((code) => isStemmaError(error, code)),
      String(error),
    );
    return [];
  }
}

async function run(
  steps: readonly Step[],
  related: Related,
  onFiles: boolean,
  decodedCacheBytes: number,
): Promise<void> {
  const files = memoryFiles();
  const clock = manualClock();
  const { tensors, ids } = related;
  let opened = 0;
  const open = async (): Promise<ObjectPruner> =>
    onFiles
      ? openPackStore(files, "/p", {
          clock,
          random: seededRandom(opened++),
          decodedCacheBytes,
          leastTableObjects: 1,
        })
      : memoryStore({ clock, random: seededRandom(opened++) });
  let store = await open();
  const live = new Set<number>();
  const check = async (): Promise<void> => {
    for (const n of live)
      assert.deepEqual(await readBack(store, ids[n] as Hash), tensors[n]!.bytes, `tensor ${n}`);
  };
  for (const one of steps) {
    if (one.do === "write") for (const n of await write(store, related, one.parts, one.recode)) live.add(n);
    if (one.do === "write-at-once")
      for (const there of await Promise.all(
        one.parts.map((part) => write(store, related, [part], one.recode)),
      ))
        for (const n of there) live.add(n);
    if (one.do === "reopen" && onFiles) {
      await store.close();
      if (!one.withCache) await files.remove("/p/index");
      store = await open();
    }
    if (one.do === "collect") {
      for (const n of live) if (!one.live.includes(n)) live.delete(n);
      const needed = (): Set<Hash> => new Set([...live].map((n) => ids[n] as Hash));
      const plan = await store.planCollection(needed());
      // What is written between plan and execution, or during the execution, makes the plan stale or is kept.
      const [before, beside] = [one.between.slice(0, 1), one.between.slice(1)];
      if (before.length > 0) for (const n of await write(store, related, before, true)) live.add(n);
      const collecting = store.collect(plan, needed).then(
        ({ freedBytes }) => {
          if (one.between.length === 0) assert.equal(freedBytes, plan.bytesBefore - plan.bytesAfter);
        },
        (error: unknown) => {
          assert.ok(one.between.length > 0 && isStemmaError(error, "PLAN_STALE"), String(error));
        },
      );
      // Not live before its references are committed: it may be collected, like any save without references.
      await Promise.all([collecting, write(store, related, beside, true)]);
    }
    await check();
  }
  await store.close();
}

const small = [5, 20];
const inThreads = [180, 100];
for (const [name, shape, onFiles, cacheBytes, runs] of [
  ["packs", small, true, 1000, depth(50, 3_000)],
  ["packs without room for decoded tensors", small, true, 0, depth(50, 3_000)],
  ["memory", small, false, 0, depth(50, 3_000)],
  // Large enough to be decoded in a worker thread.
  ["packs, decoded in threads", inThreads, true, 300_000, depth(20, 400)],
] as const)
  it(`every live tensor stays exact: ${name}`, async () => {
    const related = new Related(shape);
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 16 }), (steps) =>
        run(steps, related, onFiles, cacheBytes),
      ),
      { numRuns: runs },
    );
    if (shape === inThreads) {
      assert.ok(decodingThreads().running > 0);
      await decodingThreads().close();
    }
  });
