/** The input pipeline of an offered model: what is taken, fetched, refused and kept. */
import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { Offers } from "../../../../agent/offers/offers.js";
import { Outbox } from "../../../../agent/outbox/outbox.js";
import { silentLog } from "../../../../shared/adapters/node-ports.js";
import { maxPipelineBytes } from "../../../../shared/provenance/pipeline-file-name.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { generateKey } from "../../../../shared/trust/keys.js";
import { testProfile } from "../../../helpers/agent-fixtures.js";
import { anyRelease } from "../../../helpers/any-release.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { freeDisk } from "../../../helpers/free-disk.js";
import { manualClock, seededRandom } from "../../../helpers/manual-clock.js";
import { OfferedModels } from "../../../helpers/offered-models.js";
import { weights } from "../../../helpers/related-tensors.js";

const clock = manualClock();
const random = seededRandom("pipelines");
const bytes = Buffer.from('{"kind":"stemma-pipeline"}\n');

async function openDevice(t: TestContext, releases: typeof anyRelease = anyRelease) {
  const models = new OfferedModels(generateKey(random), clock);
  const outbox = await Outbox.open({
    files: memoryFiles(),
    folder: "/outbox",
    clock,
    random,
    log: silentLog(),
  });
  t.after(() => outbox.close());
  const offers = new Offers({
    releases,
    enrolment: models.enrolment,
    outbox,
    downloads: models.downloads,
    profile: testProfile(),
    clock,
    log: silentLog(),
    resumesOptimizer: () => false,
    diskUse: () => Promise.resolve(freeDisk),
  });
  const fetchedKinds = (): string[] => models.fetched.flat().map(({ kind }) => kind);
  return { models, outbox, offers, fetchedKinds };
}

describe("the input pipeline of an offered model", () => {
  it("is kept as the offer brings it, and goes when the device forgets the version", async (t) => {
    const { models, outbox, offers, fetchedKinds } = await openDevice(t);
    const { offer } = await models.offer("a", weights([4, 5], 1));
    const id = models.pipeline(bytes);
    await offers.take({ ...offer, pipeline: { id, data: bytes } });
    assert.equal(outbox.entry(offer.versionId)?.pipeline, id);
    assert.deepEqual(fetchedKinds(), ["tensor"]);
    for (const name of ["b", "c"]) {
      const next = await models.offer(name, weights([4, 5], name === "b" ? 2 : 3));
      await offers.take(next.offer);
      await outbox.append({
        type: "activated",
        atMs: 0,
        versionId: next.offer.versionId,
        line: "cam",
        clockErrorMs: null,
        session: 1,
      });
      if (name === "b") assert.deepEqual(Buffer.from(await outbox.objects.read("pipeline", id)), bytes);
      await outbox.forget(1, "stored");
    }
    assert.equal(outbox.entry(offer.versionId), undefined);
    assert.equal(outbox.objects.has(id), false);
  });

  it("is fetched where the offer does not bring it, or brings another one's bytes", async (t) => {
    for (const data of [undefined, Buffer.from("forged")]) {
      const { models, outbox, offers, fetchedKinds } = await openDevice(t);
      const { offer } = await models.offer("a", weights([4, 5], 1));
      const id = models.pipeline(bytes);
      await offers.take({ ...offer, pipeline: { id, data } });
      assert.deepEqual(fetchedKinds(), ["pipeline", "tensor"]);
      assert.deepEqual(Buffer.from(await outbox.objects.read("pipeline", id)), bytes);
    }
  });

  it("is refused with its model where it is too long, or is an object of another kind", async (t) => {
    const { models, outbox, offers } = await openDevice(t);
    const { offer, saved } = await models.offer("a", weights([4, 5], 1));
    const long = models.pipeline(new Uint8Array(maxPipelineBytes + 1));
    await assert.rejects(offers.take({ ...offer, pipeline: { id: long } }), { code: "SIZE_OVER_LIMIT" });
    const { environment } = saved.record.objects;
    await assert.rejects(offers.take({ ...offer, pipeline: { id: environment } }), {
      code: "OBJECT_MISSING",
    });
    assert.equal(outbox.entry(offer.versionId), undefined);
    await offers.take(offer);
    assert.equal(outbox.entry(offer.versionId)?.pipeline, undefined);
  });

  it("is not even stored where the device does not take it", async (t) => {
    const none = { ...anyRelease, requireOffered: () => Promise.resolve(undefined) };
    const { models, outbox, offers } = await openDevice(t, none);
    const { offer } = await models.offer("a", weights([4, 5], 1));
    const id: Hash = models.pipeline(bytes);
    await offers.take({ ...offer, pipeline: { id, data: bytes } });
    assert.equal(outbox.entry(offer.versionId)?.pipeline, undefined);
    assert.equal(outbox.objects.has(id), false);
  });
});
