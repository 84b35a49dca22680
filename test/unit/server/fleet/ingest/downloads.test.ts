// What the server counts as being sent, by which a rollout gives out its places: streams that are being prepared, and
// those that went on within the last minute.
import assert from "node:assert/strict";
import { beforeEach, it } from "node:test";
import { CodedDownloads } from "../../../../../server/fleet/ingest/downloads/coded-downloads.js";
import { Deliveries } from "../../../../../server/fleet/ingest/downloads/deliveries.js";
import { Downloads } from "../../../../../server/fleet/ingest/downloads/downloads.js";
import { SendRates } from "../../../../../server/fleet/ingest/downloads/send-rates.js";
import { silentLog } from "../../../../../shared/adapters/node-ports.js";
import { generateKey } from "../../../../../shared/trust/keys.js";
import type { Block } from "../../../../../shared/wire/messages.js";
import { nextEventLoopTurn } from "../../../../helpers/agent-test-environment.js";
import { seededRandom } from "../../../../helpers/manual-clock.js";
import { releaseAndUpdate, type ReleaseAndUpdate } from "../../../../helpers/release-and-update.js";

const transfer = "00".repeat(8);
const blockBytes = 64 * 1024;
const lastMs = 60_000;

let given: ReleaseAndUpdate;
let downloads: Downloads;
/** Blocks that the link was given and has not taken; calling one takes it. */
let onTheLink: (() => void)[];
let refused: string[];
/** Devices to which nothing is sent any more. */
let endedRates: string[];

class RecordedRates extends SendRates {
  override end(device: string): void {
    endedRates.push(device);
    super.end(device);
  }
}

const settle = async (): Promise<void> => {
  for (let turn = 0; turn < 20; turn++) await nextEventLoopTurn();
};
const fetching = (): readonly string[] => [...downloads.fetching(given.update.versionId)].sort();

async function enroll(device: string): Promise<void> {
  const { repository, clock, update } = given;
  const { publicKey } = generateKey(seededRandom(device));
  const at = { atMs: clock.now(), device };
  await repository.append({ ...at, type: "enrolled", publicKey, tokenHash: "", profile: "p", lines: ["m"] });
  await repository.append({ ...at, type: "assigned", line: "m", versionId: update.versionId });
}
async function fetch(device: string, blocks: readonly number[], id = transfer): Promise<void> {
  const { update, refs } = given;
  const { versionId } = update;
  await downloads.fetch(
    device,
    { type: "fetch", versionId, transfer: id, objects: refs, blockBytes, part: 0, parts: 1 },
    "c",
  );
  request(device, blocks, id);
  await settle();
}
function request(device: string, blocks: readonly number[], id = transfer): void {
  downloads.onBlockRequest(device, { type: "blockRequest", transfer: id, blocks, manifestParts: [] });
}

beforeEach(async () => {
  given = await releaseAndUpdate();
  onTheLink = [];
  refused = [];
  endedRates = [];
  const { repository, clock, files } = given;
  const log = silentLog();
  const limits = { blockBytes, leaseMs: 3_600_000, coding: true, spoolBytes: 2 ** 24 };
  downloads = new Downloads({
    repository,
    clock,
    log,
    limits,
    sender: {
      send: () => Promise.resolve(true),
      sendBlock: (_device: string, _transfer: string, _block: Block) =>
        new Promise<void>((taken) => {
          onTheLink.push(taken);
        }),
      refuse: (device, { code }) => {
        refused.push(`${device} ${code}`);
        return Promise.resolve();
      },
    },
    codedDownloads: await CodedDownloads.open({ repository, files, clock, log, limits, folder: "/home/out" }),
    deliveries: new Deliveries({ repository, clock }),
    rates: new RecordedRates({ repository, clock, fleetBytesPerSecond: null }),
    quota: { waitMs: () => 0, charge: () => undefined },
  });
  await enroll("v1");
  await enroll("v2");
});

it("counts a stream from its fetch until the device has it", async () => {
  assert.deepEqual(fetching(), []);
  const started = fetch("v1", [0]);
  await nextEventLoopTurn();
  assert.deepEqual(fetching(), ["v1"]);
  await started;
  await fetch("v2", [0]);
  assert.deepEqual(fetching(), ["v1", "v2"]);
  assert.deepEqual([...downloads.fetching(given.release.versionId)], []);
  await downloads.endTransfer("v1", transfer);
  assert.deepEqual(fetching(), ["v2"]);
  downloads.end("v2");
  assert.deepEqual(fetching(), []);
});

it("does not count a stream that stood still for a minute, until it goes on", async () => {
  await fetch("v1", [0]);
  given.clock.advance(lastMs - 1000);
  assert.deepEqual(fetching(), ["v1"]);
  // A slow link takes a block: it goes on.
  onTheLink.shift()?.();
  await settle();
  given.clock.advance(lastMs - 1000);
  assert.deepEqual(fetching(), ["v1"]);
  given.clock.advance(1000);
  assert.deepEqual(fetching(), []);
  request("v1", [1]);
  assert.deepEqual(fetching(), ["v1"]);
});

it("does not count who is refused, or asks for what it may not have", async () => {
  await fetch("v3", [0]);
  assert.deepEqual(fetching(), []);
  assert.deepEqual(refused, ["v3 NOT_ALLOWED"]);
});

it("gives up a device's share of the link with its last stream, not while another one is left", async () => {
  const second = "11".repeat(8);
  await fetch("v1", [0]);
  await fetch("v1", [0], second);
  await fetch("v2", [0]);
  await downloads.endTransfer("v1", transfer);
  assert.deepEqual(endedRates, [], "another stream to it is left");
  await downloads.endTransfer("v1", second);
  assert.deepEqual(endedRates, ["v1"], "those to others do not count");
  await downloads.endTransfer("v1", second);
  assert.deepEqual(endedRates, ["v1"]);
  downloads.end();
  assert.deepEqual(endedRates, ["v1", "v2"]);
});

it("refuses a device its ninth stream, however many others have", async () => {
  const ids = Array.from({ length: 9 }, (_, at) => `${at}${at}`.repeat(8));
  await fetch("v2", [0]);
  for (const id of ids.slice(0, 8)) await fetch("v1", [0], id);
  assert.deepEqual(refused, []);
  await fetch("v1", [0], ids[8]);
  assert.deepEqual(refused, ["v1 QUOTA_EXCEEDED"]);
  await downloads.endTransfer("v1", ids[0] ?? "");
  await fetch("v1", [0], ids[8]);
  assert.deepEqual(refused, ["v1 QUOTA_EXCEEDED"]);
});

it("keeps a request that overtook its fetch for a while, then says that it knows no such transfer", async () => {
  const { clock } = given;
  request("v1", [0]);
  request("v2", [0]);
  clock.advance(4000);
  assert.deepEqual(refused, []);
  // The fetch comes: the request is answered by it.
  await fetch("v1", []);
  assert.equal(onTheLink.length, 1);
  clock.advance(1000);
  assert.deepEqual(refused, ["v2 TRANSFER_UNKNOWN"]);
});

it("serves a version only to a device that it was given to, while that is enrolled", async () => {
  const { repository, clock, release } = given;
  const { publicKey } = generateKey(seededRandom("v4"));
  const of = { atMs: clock.now(), device: "v4" };
  await repository.append({ ...of, type: "enrolled", publicKey, tokenHash: "", profile: "p", lines: ["m"] });
  await fetch("v4", [0]);
  assert.deepEqual(refused, ["v4 NOT_ALLOWED"], "it is assigned nothing");
  await repository.append({ ...of, type: "assigned", line: "m", versionId: release.versionId });
  await fetch("v4", [0]);
  assert.deepEqual(refused, ["v4 NOT_ALLOWED", "v4 NOT_ALLOWED"], "it is assigned another one");
  await repository.append({ atMs: clock.now(), device: "v1", type: "quarantined", because: "x" });
  await fetch("v1", [0]);
  assert.deepEqual(refused.slice(2), ["v1 NOT_ALLOWED"]);
});
