/** What a sender began and did not finish is gone on with for a while and counted; then it is dropped, and logged. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { bundleOperations } from "../../../../../server/operations/hub/bundle-operations.js";
import type { BundleManifest } from "../../../../../server/interface/api/models/bundle-schemas.js";
import { encodeHeader, entriesEnd } from "../../../../../server/operations/hub/bundle-entry.js";
import { openFleets } from "../../../../../server/services/context/open-fleets.js";
import { openHome } from "../../../../../server/storage/repository/home.js";
import { silentLog } from "../../../../../shared/adapters/node-ports.js";
import { opaqueModelSource } from "../../../../../shared/save/model-source.js";
import type { LogFields } from "../../../../../shared/ports.js";
import { asyncIterableOf } from "../../../../../shared/tensor/async-iterable.js";
import { objectId } from "../../../../../shared/tensor/hash.js";
import { isStemmaError } from "../../../../../shared/errors.js";
import { collectBytes } from "../../../../helpers/agent-fixtures.js";
import { memoryFiles } from "../../../../helpers/files/memory-files.js";
import { noiseBytes } from "../../../../helpers/noise-bytes.js";
import { manualClock, seededRandom } from "../../../../helpers/manual-clock.js";

const mebibyte = 1024 * 1024;
const hourMs = 60 * 60_000;
const fleet = "fleet-a";

interface UploadTest {
  readonly clock: ReturnType<typeof manualClock>;
  readonly hub: Awaited<ReturnType<typeof openHome>>;
  readonly hubFleets: ReturnType<typeof openFleets>;
  readonly dropped: LogFields[];
  readonly asSender: (who: string) => ReturnType<typeof bundleOperations>;
  /** Saves a model of so many tensors of 2 MiB in the source. */
  readonly save: (name: string, tensors: number) => Promise<void>;
  readonly begin: (
    name: string,
    change?: (manifest: BundleManifest) => BundleManifest,
    who?: string,
  ) => Promise<string>;
  /** Sends a model but for its last bytes. @returns the code of what ends it */
  readonly send: (name: string, deposit: string, lacking?: number) => Promise<string | undefined>;
}

/** A source, and a hub that allows 6 MiB of unfinished uploads; both in memory. */
async function openUploadTest(): Promise<UploadTest> {
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
  return {
    ...{ clock, hub, hubFleets: fleets.hub, dropped, asSender },
    save: async (name, count) => {
      const tensors = Array.from({ length: count }, (_, at) => ({
        ...{ name: `v${at}`, dtype: "U8" as const, shape: [2 * mebibyte] },
        bytes: noiseBytes(2 * mebibyte, ++seed),
      }));
      await saved.save(opaqueModelSource(tensors), { name });
    },
    begin: async (name, change = (manifest) => manifest, who = name) => {
      const manifest = change(await from.describeBundle({ fleet, models: [name] }));
      return (await asSender(who).beginDeposit({ fleet, manifest, force: true })).deposit;
    },
    send: async (name, deposit, lacking = 0) => {
      const whole = await collectBytes(await from.bundleObjects({ fleet, models: [name] }));
      const cut = asyncIterableOf([whole.subarray(0, whole.length - lacking)]);
      return await codeOf(asSender(name).depositObjects({ fleet, deposit }, cut));
    },
  };
}

const codeOf = (work: Promise<unknown>): Promise<string | undefined> =>
  work.then(
    () => undefined,
    (error: unknown) => (isStemmaError(error) ? error.code : String(error)),
  );

it("is counted, dropped after its time, and counts no more once a collection has freed it", async () => {
  const { clock, hub, hubFleets, dropped, save, begin, send } = await openUploadTest();
  /** Sends the first of two tensors, and half of the second. */
  const sendPart = async (name: string): Promise<string | undefined> => {
    await save(name, 2);
    return await send(name, await begin(name), mebibyte);
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
  const target = await hubFleets.get(fleet);
  assert.ok((await target.collect(await target.planCollection())).freedBytes > 0);
  assert.equal(await sendPart("five"), "BUNDLE_INVALID");
  assert.equal(await partCount(), 1);
});

it("counts the parts of deposits that were begun before them", async () => {
  const { save, begin, send } = await openUploadTest();
  const names = ["one", "two", "three", "four"];
  for (const name of names) await save(name, 1);
  const deposits = await Promise.all(names.map((name) => begin(name)));
  const ends = [];
  for (const [at, name] of names.entries()) ends.push(await send(name, deposits[at] ?? "", mebibyte / 8));
  assert.deepEqual(ends, ["BUNDLE_INVALID", "BUNDLE_INVALID", "BUNDLE_INVALID", "QUOTA_EXCEEDED"]);
  // What is gone on with is there in part already.
  assert.equal(await send("one", await begin("one")), undefined);
});

it("counts what no version has, also where it came with one", async () => {
  const { asSender, save, begin, send } = await openUploadTest();
  await save("one", 1);
  const junk = noiseBytes(3 * mebibyte, 99);
  const id = objectId("data", junk);
  const deposit = await begin("one", ({ objects, ...rest }) => ({
    ...rest,
    objects: { ...objects, data: [id] },
  }));
  assert.equal(await send("one", deposit), undefined);
  const entries = asyncIterableOf([encodeHeader({ id, kind: "data", bytes: junk.length }), junk, entriesEnd]);
  await asSender("one").depositObjects({ fleet, deposit }, entries);
  assert.equal((await asSender("one").finishDeposit({ fleet, deposit })).report?.recorded.length, 1);
  await save("two", 1);
  assert.equal(await send("two", await begin("two")), undefined);
  await save("three", 1);
  assert.equal(await send("three", await begin("three")), "QUOTA_EXCEEDED");
});

it("leaves room for others, however many one sender begins", async () => {
  const { save, begin } = await openUploadTest();
  const names = ["one", "two", "three", "four", "five"];
  for (const name of names) await save(name, 1);
  const begun: (string | undefined)[] = [];
  for (const name of names) begun.push(await codeOf(begin(name, undefined, "greedy")));
  assert.deepEqual(begun, [undefined, undefined, undefined, undefined, "QUOTA_EXCEEDED"]);
  assert.equal(await codeOf(begin("five", undefined, "patient")), undefined);
});
