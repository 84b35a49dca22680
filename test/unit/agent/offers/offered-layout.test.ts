/** The space of an offered model that has a layout: it is installed in the names of its own file too. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { Offers } from "../../../../agent/offers/offers.js";
import { Outbox } from "../../../../agent/outbox/outbox.js";
import { silentLog } from "../../../../shared/adapters/node-ports.js";
import { generateKey } from "../../../../shared/trust/keys.js";
import { layoutOfOwnNames, testProfile, tinySource } from "../../../helpers/agent-fixtures.js";
import { anyRelease } from "../../../helpers/any-release.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { freeDisk } from "../../../helpers/free-disk.js";
import { manualClock, seededRandom } from "../../../helpers/manual-clock.js";
import { OfferedModels } from "../../../helpers/offered-models.js";

it("refuses a model that fits without the file in its layout, before its tensors are fetched", async (t) => {
  const clock = manualClock();
  const random = seededRandom("layouts");
  const models = new OfferedModels(generateKey(random), clock);
  const outbox = await Outbox.open({
    files: memoryFiles(),
    folder: "/outbox",
    clock,
    random,
    log: silentLog(),
  });
  t.after(() => outbox.close());
  const profile = testProfile();
  const { outbox: kept, head } = profile.disk.reserveBytes;
  let free = 0;
  const offers = new Offers({
    releases: anyRelease,
    enrolment: models.enrolment,
    outbox,
    downloads: models.downloads,
    profile,
    clock,
    log: silentLog(),
    resumesOptimizer: () => false,
    diskUse: () => Promise.resolve({ ...freeDisk, free }),
  });
  const model = tinySource("1", 100);
  const bytes = model.sources.reduce((sum, { byteLength }) => sum + byteLength, 0);
  const { offer } = await models.offerOf("a", model, { attachments: [await layoutOfOwnNames(model)] });
  free = kept + head + 3 * bytes - 1;
  await assert.rejects(offers.take(offer), { code: "DISK_BUDGET_EXHAUSTED" });
  assert.deepEqual(models.fetched, []);
  free++;
  await offers.take(offer);
  assert.notEqual(outbox.entry(offer.versionId), undefined);
});
