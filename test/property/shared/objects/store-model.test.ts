/**
 * Any order of saves, leases, collections and reopenings: packs and memory agree with a model of what must be
 * stored.
 */
import assert from "node:assert/strict";
import { it } from "node:test";
import fc from "fast-check";
import "../../../helpers/property-seed.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { memoryStore } from "../../../../shared/objects/memory-store.js";
import { openPackStore } from "../../../../shared/objects/pack-store.js";
import type { ObjectPruner } from "../../../../shared/objects/object-store.js";
import { tensorOfSource, type Hash } from "../../../../shared/tensor/tensor.js";
import { idOfTensor } from "../../../helpers/coded-tensors.js";
import { saveTensors, testTensor } from "../../../helpers/object-stores.js";
import { manualClock, seededRandom } from "../../../helpers/manual-clock.js";

const small = (n: number) => testTensor(n, 10 + n * 7);
const numbers = fc.array(fc.nat({ max: 12 }), { minLength: 1, maxLength: 5 });
const step = fc.oneof(
  fc.record({ do: fc.constant("save" as const), numbers }),
  fc.record({ do: fc.constant("save-at-once" as const), numbers }),
  fc.record({ do: fc.constant("collect" as const), numbers }),
  fc.record({ do: fc.constant("lease" as const), numbers }),
  fc.record({ do: fc.constant("wait" as const), numbers }),
  fc.record({ do: fc.constant("reopen" as const), numbers }),
);

async function run(
  steps: readonly { readonly do: string; readonly numbers: readonly number[] }[],
  onFiles: boolean,
): Promise<void> {
  const files = memoryFiles();
  const clock = manualClock();
  let opened = 0;
  const open = async (): Promise<ObjectPruner> =>
    onFiles
      ? openPackStore(files, "/p", { clock, random: seededRandom(opened++), leastTableObjects: 1 })
      : memoryStore({ clock, random: seededRandom(opened++) });
  let store = await open();
  const there = new Set<number>();
  let leased: { readonly numbers: readonly number[]; readonly untilMs: number }[] = [];
  for (const { do: what, numbers: named } of steps) {
    if (what === "save") {
      await saveTensors(store, ...named.map(small));
      named.forEach((n) => there.add(n));
    }
    if (what === "save-at-once") {
      await Promise.all(named.map((n) => saveTensors(store, small(n), small(n + 1))));
      named.forEach((n) => {
        there.add(n);
        there.add(n + 1);
      });
    }
    if (what === "lease") {
      store.lease(
        named.map((n) => idOfTensor(small(n))),
        1000,
      );
      leased.push({ numbers: named, untilMs: clock.monotonic() + 1000 });
    }
    if (what === "wait") clock.advance(400);
    if (what === "reopen" && onFiles) {
      await store.close();
      store = await open();
      leased = [];
    }
    if (what === "collect") {
      const live = new Set<Hash>(named.filter((n) => there.has(n)).map((n) => idOfTensor(small(n))));
      const stays = new Set([
        ...named,
        ...leased.filter(({ untilMs }) => untilMs > clock.monotonic()).flatMap((lease) => lease.numbers),
      ]);
      const plan = await store.planCollection(live);
      const { freedBytes } = await store.collect(plan, () => live);
      assert.equal(freedBytes, plan.bytesBefore - plan.bytesAfter);
      for (const n of [...there]) if (!stays.has(n)) there.delete(n);
    }
    assert.deepEqual(
      new Set([...store.list()].map(({ id }) => id)),
      new Set([...there].map((n) => idOfTensor(small(n)))),
    );
  }
  for (const n of there)
    assert.deepEqual((await tensorOfSource(store.openTensor(idOfTensor(small(n))))).bytes, small(n).bytes);
  await store.close();
}

for (const onFiles of [true, false])
  it(`agrees with the model: ${onFiles ? "packs" : "memory"}`, async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 14 }), (steps) => run(steps, onFiles)),
      { numRuns: process.env["STEMMA_TEST_FULL"] === "1" ? 2000 : 50 },
    );
  });
