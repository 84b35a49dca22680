/**
 * Crashes at any moment while a device takes models with their input pipelines and switches to them: a line never runs
 * a model without the pipeline that came with it, nor with another's.
 */
import assert from "node:assert/strict";
import { it } from "node:test";
import { CurrentStore } from "../../../agent/current/current-store.js";
import { Activator } from "../../../agent/lines/activator.js";
import { Offers } from "../../../agent/offers/offers.js";
import { Outbox } from "../../../agent/outbox/outbox.js";
import { activeVersion } from "../../../agent/outbox/outbox-state.js";
import { silentLog } from "../../../shared/adapters/node-ports.js";
import type { Files } from "../../../shared/ports.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { generateKey } from "../../../shared/trust/keys.js";
import type { Offer } from "../../../shared/wire/messages.js";
import { testProfile } from "../../helpers/agent-fixtures.js";
import { anyRelease, noHooks } from "../../helpers/any-release.js";
import { checkCrashStates } from "../../helpers/crash-states.js";
import { freeDisk } from "../../helpers/free-disk.js";
import { manualClock, seededRandom } from "../../helpers/manual-clock.js";
import { OfferedModels } from "../../helpers/offered-models.js";
import { weights } from "../../helpers/related-tensors.js";

const home = "/home/agent";
const clock = manualClock();
const models = new OfferedModels(generateKey(seededRandom("crashing pipelines")), clock);
let openings = 0;

async function openAll(files: Files) {
  const random = seededRandom(`pipelines ${openings++}`);
  const outbox = await Outbox.open({ files, folder: `${home}/outbox`, clock, random, log: silentLog() });
  const current = await CurrentStore.open(files, home, clock);
  const common = { outbox, profile: testProfile(), clock, log: silentLog(), releases: anyRelease };
  const diskUse = () => Promise.resolve(freeDisk);
  const activator = new Activator({
    ...common,
    hooks: noHooks,
    files,
    current,
    clockErrorMs: () => null,
    session: () => 1,
    diskUse,
  });
  const offers = new Offers({
    ...common,
    enrolment: models.enrolment,
    downloads: models.downloads,
    resumesOptimizer: () => false,
    diskUse,
  });
  await activator.reconcile(["cam"]);
  return { outbox, current, activator, offers };
}

/** Offers of three models, of which the last has no pipeline; the second one's has to be fetched. */
const offered: Offer[] = [];
const pipelines = new Map<Hash, string | undefined>();
for (const [at, text] of ["first", "second", undefined].entries()) {
  const { offer } = await models.offer(String(at), weights([4, 5], at + 1));
  pipelines.set(offer.versionId, text);
  const bytes = text === undefined ? undefined : Buffer.from(text);
  const data = at === 0 ? bytes : undefined;
  offered.push(bytes === undefined ? offer : { ...offer, pipeline: { id: models.pipeline(bytes), data } });
}

type Mark = { readonly runs: number };

it("a line runs a model with the input pipeline that came with it", async () => {
  await checkCrashStates<Mark>({
    name: "input pipelines",
    run: async (files, mark) => {
      const { outbox, activator, offers } = await openAll(files);
      for (const [at, offer] of offered.entries()) {
        await offers.take(offer);
        await activator.activate("cam", offer.versionId);
        mark({ runs: at });
        await outbox.forget(1, "stored");
      }
      await outbox.close();
    },
    check: async (files, marks) => {
      const { outbox, current, offers, activator } = await openAll(files);
      const active = await current.active("cam");
      assert.equal(active, activeVersion(outbox.state, "cam"), "the link and the journal agree");
      const order = offered.findIndex(({ versionId }) => versionId === active);
      assert.ok(order >= (marks.at(-1)?.runs ?? -1), "a switch that was done is not undone");
      const requirePipeline = async (versionId: Hash): Promise<void> => {
        assert.equal(await current.isSound(versionId), true);
        const file = await current.fileOf(versionId, "pipeline.json");
        assert.equal(file && Buffer.from(file).toString("utf8"), pipelines.get(versionId));
      };
      if (active !== undefined) await requirePipeline(active);
      // The server offers again what the device does not run.
      for (const offer of offered.slice(order + 1)) {
        await offers.take(offer);
        await activator.activate("cam", offer.versionId);
        await requirePipeline(offer.versionId);
      }
      await outbox.close();
    },
  });
});
