/** What a sender began and did not finish is gone on with for a while and counted; then it is dropped, and logged. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { bundleOperations } from "../../../../../server/operations/hub/bundle-operations.js";
import { openFleets } from "../../../../../server/services/context/open-fleets.js";
import { openHome } from "../../../../../server/storage/repository/home.js";
import { silentLog } from "../../../../../shared/adapters/node-ports.js";
import { opaqueModelSource } from "../../../../../shared/save/model-source.js";
import type { LogFields } from "../../../../../shared/ports.js";
import { asyncIterableOf } from "../../../../../shared/tensor/async-iterable.js";
import { isStemmaError } from "../../../../../shared/errors.js";
import { collectBytes } from "../../../../helpers/agent-fixtures.js";
import { memoryFiles } from "../../../../helpers/files/memory-files.js";
import { noiseBytes } from "../../../../helpers/noise-bytes.js";
import { manualClock, seededRandom } from "../../../../helpers/manual-clock.js";

const mebibyte = 1024 * 1024;
const hourMs = 60 * 60_000;
const fleet = "fleet-a";

it("is counted, dropped after its time, and counts no more once a collection has freed it", async () => {
  const clock = manualClock();
  const random = seededRandom("unfinished uploads");
  const dropped: LogFields[] = [];
  const log = {
    ...silentLog(),
    warn: (event: string, fields = {}) => void dropped.push({ event, ...fields }),
  };
  const environment = { backend: "none", stemma: "test" };
  const homeOf = async (path: string): ReturnType<typeof openHome> =>
    await openHome(path, { files: memoryFiles({ now: () => clock.now() }), clock, random, environment, log });
  const [source, hub] = [await homeOf("/source"), await homeOf("/hub")];
  const fleets = { source: openFleets(source), hub: openFleets(hub) };
  const from = bundleOperations({ home: source, fleets: fleets.source, version: "test" });
  const asSender = (who: string): typeof from =>
    bundleOperations({
      ...{ home: hub, fleets: fleets.hub, version: "test", caller: { who, through: "http" } as const },
      ...{ isHub: () => Promise.resolve(true), maxUnfinishedBytes: 6 * mebibyte },
    });
  let seed = 0;
  const saved = await fleets.source.get(fleet, { create: true });
  /** Sends the first of two tensors of 2 MiB, and half of the second. @returns the code of what ends it */
  const sendPart = async (name: string): Promise<string | undefined> => {
    const tensors = ["v", "w"].map((each) => ({
      ...{ name: each, dtype: "U8" as const, shape: [2 * mebibyte], bytes: noiseBytes(2 * mebibyte, ++seed) },
    }));
    await saved.save(opaqueModelSource(tensors), { name });
    const manifest = await from.describeBundle({ fleet, models: [name] });
    const { deposit } = await asSender(name).beginDeposit({ fleet, manifest, force: true });
    const whole = await collectBytes(await from.bundleObjects({ fleet, models: [name] }));
    const cut = asyncIterableOf([whole.subarray(0, whole.length - mebibyte)]);
    return await asSender(name)
      .depositObjects({ fleet, deposit }, cut)
      .then(
        () => undefined,
        (error: unknown) => (isStemmaError(error) ? error.code : String(error)),
      );
  };
  const partCount = async (): Promise<number> =>
    (await hub.ports.files.list(`${hub.fleetFolder(fleet)}/deposits`)).length;
  assert.equal(await sendPart("one"), "BUNDLE_INVALID");
  assert.equal(await sendPart("two"), "QUOTA_EXCEEDED");
  assert.deepEqual([await partCount(), dropped], [1, []]);
  clock.advance(hourMs);
  assert.equal(await sendPart("three"), "QUOTA_EXCEEDED");
  assert.deepEqual(
    dropped.map(({ owner, objects }) => [owner, (objects as number) > 0]),
    [
      ['["http","one"]', true],
      ['["http","two"]', true],
    ],
  );
  clock.advance(24 * hourMs);
  // Dropped is not freed: a collection does that. What came in part has gone by then.
  assert.equal(await sendPart("four"), "QUOTA_EXCEEDED");
  assert.match(String(dropped.at(-2)?.["name"]), /\.part$/);
  assert.equal(await partCount(), 0);
  const target = await fleets.hub.get(fleet);
  assert.ok((await target.collect(await target.planCollection())).freedBytes > 0);
  assert.equal(await sendPart("five"), "BUNDLE_INVALID");
  assert.equal(await partCount(), 1);
});
