/** What an offered model shares with one that is forgotten while it is fetched stays, or is fetched again. */
import { anyRelease } from "../../../helpers/any-release.js";
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Download, Downloads } from "../../../../agent/offers/downloads.js";
import { Offers } from "../../../../agent/offers/offers.js";
import { Outbox } from "../../../../agent/outbox/outbox.js";
import { silentLog } from "../../../../shared/adapters/node-ports.js";
import { tensorOfSource, type Hash } from "../../../../shared/tensor/tensor.js";
import { generateKey } from "../../../../shared/trust/keys.js";
import type { ObjectRef } from "../../../../shared/wire/messages.js";
import { testProfile } from "../../../helpers/agent-fixtures.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { freeDisk } from "../../../helpers/free-disk.js";
import { manualClock, seededRandom } from "../../../helpers/manual-clock.js";
import { OfferedModels } from "../../../helpers/offered-models.js";
import { weights } from "../../../helpers/related-tensors.js";

const clock = manualClock();
const random = seededRandom("forgotten");
const key = generateKey(random);
const shared = weights([30, 30], 3);

async function deviceWithBase() {
  const models = new OfferedModels(key, clock);
  const base = await models.offer("base", weights([40, 50], 1), undefined, shared);
  // The newest one here, so that the base is none that the child may be coded against.
  const newest = await models.offer("newest", weights([40, 50], 4));
  const child = await models.offer("child", weights([40, 50], 2), undefined, shared);
  const outbox = await Outbox.open({
    files: memoryFiles(),
    folder: "/outbox",
    clock,
    random,
    log: silentLog(),
  });
  const fetched: (readonly Hash[])[] = [];
  let onFetch = (): Promise<unknown> => Promise.resolve();
  const fetch = async (_: Hash, refs: readonly ObjectRef[]): Promise<Download> => {
    fetched.push(refs.map(({ id }) => id));
    await onFetch();
    const parts = await Promise.all(
      refs.map(async ({ id }) => (await tensorOfSource(models.server.openTensor(id))).bytes),
    );
    const bytes = Buffer.concat(parts);
    return {
      refs,
      encodings: [],
      read: (offset, length) => Promise.resolve(bytes.subarray(offset, offset + length)),
      done: () => Promise.resolve(),
    };
  };
  const offers = new Offers({
    releases: anyRelease,
    enrolment: models.enrolment,
    outbox,
    downloads: { fetch } as unknown as Downloads,
    profile: testProfile({ "link.coding": "never" }),
    clock,
    log: silentLog(),
    resumesOptimizer: () => false,
    diskUse: () => Promise.resolve(freeDisk),
  });
  await offers.take(base.offer);
  await offers.take(newest.offer);
  fetched.length = 0;
  const isComplete = (): boolean => child.saved.leaves.every(({ tensor }) => outbox.objects.has(tensor));
  return {
    ...{ outbox, offers, base: base.offer, child, fetched, isComplete },
    during: (work: () => Promise<unknown>) => {
      onFetch = work;
    },
  };
}

test("a model that is forgotten during a download leaves what the offered one shares with it", async () => {
  const { outbox, offers, base, child, fetched, isComplete, during } = await deviceWithBase();
  during(() => outbox.forget(0, "stored"));
  await offers.take(child.offer);
  assert.deepEqual(fetched.at(-1), [child.tensor], "the shared tensor was here");
  assert.equal(outbox.entry(base.versionId), undefined, "the base is forgotten");
  assert.ok(isComplete());
  await outbox.close();
});

test("a version without all its tensors is not taken for here, and is fetched when it is offered again", async () => {
  const { outbox, offers, child, fetched, isComplete } = await deviceWithBase();
  const { offer } = child;
  const { versionId, line, name, version } = offer;
  const fact = { type: "adopted", atMs: 1, versionId, line, name, version, tensorBytes: 1 } as const;
  await assert.rejects(
    outbox.adopt(fact, [child.tensor], (pack) => pack.put("record", offer.record).then(() => undefined)),
    { code: "REFERENCE_MISSING" },
  );
  // As releases before this one may have left it.
  await outbox.adopt(fact, [], (pack) => pack.put("record", offer.record).then(() => undefined));
  assert.ok(!isComplete());
  await offers.take(offer);
  assert.deepEqual(fetched.at(-1), [child.tensor]);
  assert.ok(isComplete());
  await offers.take(offer);
  assert.equal(fetched.length, 1, "what is here is not fetched again");
  await outbox.close();
});
