/**
 * A minimal repository of packs and journal: saves, retirements and collections in the write order of the server. For
 * fault tests, also in child processes.
 */
import assert from "node:assert/strict";
import { isStemmaError } from "../../../../shared/errors.js";
import { openJournal } from "../../../../shared/journal/open-journal.js";
import { openPackStore } from "../../../../shared/objects/pack-store.js";
import type { Files } from "../../../../shared/ports.js";
import { sourceOfTensor, tensorOfSource, type Hash, type Tensor } from "../../../../shared/tensor/tensor.js";
import { manualClock, seededRandom } from "../../../helpers/manual-clock.js";
import { idOfTensor } from "../../../helpers/coded-tensors.js";
import { streamOf, streamedBytes, testTensor } from "../../../helpers/object-stores.js";

export type TestFact =
  | {
      readonly type: "saved";
      readonly save: number;
      readonly tensors: readonly Hash[];
      readonly tree: Hash;
      /** An object that streams; every third save has one. */
      readonly data?: Hash;
    }
  | { readonly type: "retired"; readonly save: number };
export type Ack =
  | { readonly what: "saved"; readonly save: number; readonly position: number }
  | { readonly what: "retiring"; readonly save: number }
  | { readonly what: "retired"; readonly save: number };

export const folders = { packs: "/home/fleet/packs", journal: "/home/fleet/journal" };
export const tensorsOf = (save: number): Tensor[] => [
  testTensor(save, 40 + save * 37),
  testTensor(1000 + (save >> 1), 2000),
  ...(save % 4 === 0 ? [testTensor(2000 + save, 90_000)] : []),
];
/** Saves 0 and 3, 6 and 9, … share theirs. */
const dataOf = (save: number): Uint8Array | undefined =>
  save % 3 === 0 ? testTensor(3000 + Math.floor(save / 6), 30_000).bytes : undefined;
const treeOf = (save: number): Uint8Array => new TextEncoder().encode(`tree of ${save}`);

export async function openSmall(files: Files, seed: string) {
  const store = await openPackStore(files, folders.packs, {
    clock: manualClock(),
    random: seededRandom(seed),
    graceMs: 60_000,
    leastTableObjects: 1,
  });
  const journal = await openJournal<TestFact>(files, folders.journal, { segmentBytes: 700 });
  const saves = new Map<number, TestFact & { readonly type: "saved" }>();
  for await (const { fact } of journal.entries())
    if (fact.type === "saved") saves.set(fact.save, fact);
    else saves.delete(fact.save);
  const live = (): Set<Hash> =>
    new Set(
      [...saves.values()].flatMap(({ tensors, tree, data }) => [...tensors, tree, ...(data ? [data] : [])]),
    );
  return {
    store,
    journal,
    saves,
    live,
    async save(number: number): Promise<number> {
      const pack = await store.begin();
      const tensors: Hash[] = [];
      for (const tensor of tensorsOf(number)) tensors.push(await pack.putTensor(sourceOfTensor(tensor)));
      const tree = await pack.put("tree", treeOf(number));
      const bytes = dataOf(number);
      const data = bytes === undefined ? [] : [await pack.putStream("data", streamOf(bytes, 9_999))];
      await pack.commit();
      return store.commitReferences([...tensors, tree, ...data], async () => {
        const fact = {
          type: "saved",
          save: number,
          tensors,
          tree,
          ...(data[0] === undefined ? {} : { data: data[0] }),
        } as const;
        const [position] = await journal.append([fact]);
        saves.set(number, fact);
        return position as number;
      });
    },
    async retire(number: number): Promise<void> {
      await journal.append([{ type: "retired", save: number }]);
      saves.delete(number);
    },
    async collect(): Promise<void> {
      // A concurrent save may need what was planned to be removed; then nothing is removed.
      try {
        await store.collect(await store.planCollection(live()), live);
      } catch (error) {
        if (!isStemmaError(error, "PLAN_STALE")) throw error;
      }
    },
    async close(): Promise<void> {
      await store.close();
      await journal.close();
    },
  };
}

/** No two processes draw the same random numbers. */
let checks = 0;

/**
 * Asserts that everything acknowledged is recorded and complete, that everything recorded is recoverable, and that
 * work can continue.
 */
export async function checkSmall(files: Files, acks: readonly Ack[], nextSave = 1): Promise<void> {
  const home = await openSmall(files, `after crash ${checks++}`);
  assert.deepEqual(home.store.problems(), []);
  const retiring = new Set(acks.filter(({ what }) => what !== "saved").map(({ save }) => save));
  for (const ack of acks) {
    if (ack.what === "saved" && !retiring.has(ack.save))
      assert.ok(home.saves.has(ack.save), `save ${ack.save} was acknowledged and is lost`);
    if (ack.what === "retired")
      assert.ok(!home.saves.has(ack.save), `the retirement of ${ack.save} was acknowledged and is lost`);
  }
  const facts = new Map<number, TestFact>();
  for await (const { position, fact } of home.journal.entries()) facts.set(position, fact);
  for (const ack of acks)
    if (ack.what === "saved")
      assert.equal(
        (facts.get(ack.position) as { save: number } | undefined)?.save,
        ack.save,
        "an acknowledged fact moved",
      );
  for (const { save, tensors, tree, data } of home.saves.values()) {
    assert.deepEqual(tensors, tensorsOf(save).map(idOfTensor));
    for (const [i, tensor] of tensorsOf(save).entries())
      assert.deepEqual((await tensorOfSource(home.store.openTensor(tensors[i] as Hash))).bytes, tensor.bytes);
    assert.deepEqual(await home.store.read("tree", tree), treeOf(save));
    assert.equal(data !== undefined, save % 3 === 0);
    if (data !== undefined) assert.deepEqual(await streamedBytes(home.store, "data", data), dataOf(save));
  }
  // Work continues from there.
  await home.save(500 + nextSave);
  await home.collect();
  await home.close();
  const names = await files.list(folders.packs);
  assert.ok(
    names.every((name) => name.endsWith(".pack") || name === "index" || name === "table"),
    `left over: ${names.join(" ")}`,
  );
}
