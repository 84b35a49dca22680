/**
 * Any graph of related tensors, recoded and collected in any order, reopened in between: every live tensor is
 * read back bit for bit, nothing live goes, what a collection frees is what its plan said.
 */
import assert from "node:assert/strict";
import { it } from "node:test";
import fc from "fast-check";
import { isStemmaError } from "../../../../shared/errors.js";
import { memoryFiles } from "../../../../shared/files/memory-files.js";
import { memoryStore } from "../../../../shared/objects/memory-store.js";
import type { CodedTensor, ObjectPruner } from "../../../../shared/objects/object-store.js";
import { openPackStore } from "../../../../shared/objects/pack-store.js";
import type { Hash, Tensor } from "../../../../shared/tensor/tensor.js";
import { codedAgainst, idOfTensor, memberOf, readBack, writePack } from "../../../helpers/coded-tensors.js";
import { manualClock, seededRandom } from "../../../helpers/manual-clock.js";

const tensors = Array.from({ length: 9 }, (_, i) => memberOf(Math.floor(i / 5), i % 5, [5, 20]));
const ids = tensors.map(idOfTensor);
const codings = new Map<string, CodedTensor>();
function codingOf(tensor: number, base: number | undefined, previous: number | undefined, inPlanes: boolean): CodedTensor {
  const key = [tensor, base, previous, inPlanes].join();
  let found = codings.get(key);
  if (found === undefined) codings.set(key, found = codedAgainst(tensors[tensor]!, base === undefined ? undefined : tensors[base], previous === undefined ? undefined : tensors[previous], inPlanes ? "planes" : "packed"));
  return found;
}

const which = fc.nat({ max: tensors.length - 1 });
const written = fc.record({ tensor: which, base: fc.option(which, { nil: undefined }), previous: fc.option(which, { nil: undefined }), inPlanes: fc.boolean(), raw: fc.boolean() });
const step = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant("write" as const), recode: fc.boolean(), parts: fc.array(written, { minLength: 1, maxLength: 4 }) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("write-at-once" as const), recode: fc.boolean(), parts: fc.array(written, { minLength: 2, maxLength: 4 }) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("collect" as const), live: fc.array(which, { maxLength: 6 }), between: fc.array(written, { maxLength: 2 }) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("reopen" as const), withCache: fc.boolean() }) },
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;
type Part = typeof written extends fc.Arbitrary<infer T> ? T : never;

/** What a store may say of a coding that does not suit what it has. */
const refusals = ["REFERENCE_MISSING", "CHAIN_CYCLIC", "CHAIN_TOO_LONG"] as const;

/** Writes what the store takes of these parts; says which are there now for certain. */
async function write(store: ObjectPruner, parts: readonly Part[], recode: boolean): Promise<number[]> {
  const given = parts.map(({ tensor, base, previous, inPlanes, raw }): Tensor | CodedTensor => (raw ? tensors[tensor]! : codingOf(tensor, base === tensor ? undefined : base, previous === tensor ? undefined : previous, inPlanes)));
  try { await writePack(store, given, { recode }); return parts.map(({ tensor }) => tensor); } catch (error) {
    assert.ok(refusals.some((code) => isStemmaError(error, code)), String(error));
    return [];
  }
}

async function run(steps: readonly Step[], onFiles: boolean, decodedCacheBytes: number): Promise<void> {
  const files = memoryFiles(), clock = manualClock();
  let opened = 0;
  const open = async (): Promise<ObjectPruner> => (onFiles ? openPackStore(files, "/p", { clock, random: seededRandom(opened++), decodedCacheBytes }) : memoryStore({ clock, random: seededRandom(opened++) }));
  let store = await open();
  const live = new Set<number>();
  const check = async (): Promise<void> => { for (const n of live) assert.deepEqual(await readBack(store, ids[n] as Hash), tensors[n]!.bytes, `tensor ${n}`); };
  for (const one of steps) {
    if (one.do === "write") for (const n of await write(store, one.parts, one.recode)) live.add(n);
    if (one.do === "write-at-once") for (const there of await Promise.all(one.parts.map((part) => write(store, [part], one.recode)))) for (const n of there) live.add(n);
    if (one.do === "reopen" && onFiles) {
      await store.close();
      if (!one.withCache) await files.remove("/p/index");
      store = await open();
    }
    if (one.do === "collect") {
      for (const n of live) if (!one.live.includes(n)) live.delete(n);
      const needed = (): Set<Hash> => new Set([...live].map((n) => ids[n] as Hash));
      const plan = store.planCollection(needed());
      // What is written between plan and execution, or beside the execution, makes the plan stale or is kept.
      const [before, beside] = [one.between.slice(0, 1), one.between.slice(1)];
      if (before.length > 0) for (const n of await write(store, before, true)) live.add(n);
      const collecting = store.collect(plan, needed).then(({ freedBytes }) => { if (one.between.length === 0) assert.equal(freedBytes, plan.bytesBefore - plan.bytesAfter); }, (error: unknown) => { assert.ok(one.between.length > 0 && isStemmaError(error, "PLAN_STALE"), String(error)); });
      // Not live before its references are committed: it may go again, as any save may that nothing refers to.
      await Promise.all([collecting, write(store, beside, true)]);
    }
    await check();
  }
  await store.close();
}

for (const [name, onFiles, cacheBytes] of [["packs", true, 1000], ["packs without room for decoded tensors", true, 0], ["memory", false, 0]] as const) it(`every live tensor stays exact: ${name}`, async () => {
  await fc.assert(fc.asyncProperty(fc.array(step, { maxLength: 16 }), (steps) => run(steps, onFiles, cacheBytes)), { numRuns: process.env["STEMMA_TEST_FULL"] === "1" ? 3000 : 200 });
});
