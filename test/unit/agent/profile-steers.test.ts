/**
 * Every field of a profile changes what the agent does. For each field the test has two values and something
 * observable that differs; a field of the schema that is missing here fails the test.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import * as z from "zod";
import { judgeDisk, forgettable } from "../../../agent/resources/disk-budget.js";
import { Intake } from "../../../agent/intake/intake.js";
import { splitByContent } from "../../../shared/train/datasets/sample-split.js";
import { nextActivation } from "../../../agent/lines/activation.js";
import { mqttOptionsOf } from "../../../agent/link/mqtt-options.js";
import { Pacer } from "../../../agent/link/pacer.js";
import { Downloads } from "../../../agent/offers/downloads.js";
import { decideCoding } from "../../../shared/wire/coding/decide-coding.js";
import { Outbox } from "../../../agent/outbox/outbox.js";
import { keptVersions } from "../../../agent/outbox/outbox-state.js";
import { Uploads } from "../../../agent/outbox/uploads.js";
import { profileSchema, type Profile } from "../../../agent/settings/profile.js";
import { decideTraining } from "../../../agent/trainer/schedule.js";
import { settingsOf, stateLimitsOf } from "../../../agent/trainer/training-settings.js";
import { silentLog } from "../../../shared/adapters/node-ports.js";
import { memoryFiles } from "../../helpers/files/memory-files.js";
import { freeDisk } from "../../helpers/free-disk.js";
import { decideBackend } from "../../../agent/backend/training-backend.js";
import type { Body, Want } from "../../../shared/wire/messages.js";
import { testProfile, tinySource } from "../../helpers/agent-fixtures.js";
import { manualClock, seededRandom } from "../../helpers/manual-clock.js";
import { foldFacts, id, receipt, saved } from "./outbox/facts.js";

const MiB = 2 ** 20;
const hour = 3_600_000;
const clock = manualClock();

/** What a schedule decides with 5 new samples, 2 hours after the last training, at noon UTC. */
function scheduled(profile: Profile): string {
  const nowMs = 12 * hour;
  return decideTraining({
    training: profile.training,
    schedule: {},
    nowMs,
    utcOffsetMinutes: 0,
    lastTrainingMs: nowMs - 2 * hour,
    trainings: 1,
    newSamples: 5,
    hasBase: true,
    disk: { allowed: true, remainingBytes: 1, reason: "" },
    awaitsReceipt: false,
    awaitsActivation: false,
    pausesAfterFailure: false,
    isSwitchedOff: false,
    requested: false,
  }).because;
}

const use = { ...freeDisk, packs: 100 * MiB };
function allowedBytes(profile: Profile, purpose: "train" | "install" | "report"): number {
  return judgeDisk(profile.disk, use, purpose, 0).remainingBytes;
}

async function intakeOf(profile: Profile): Promise<readonly number[]> {
  const intake = await Intake.open({
    files: memoryFiles(),
    folder: "/samples",
    line: "cam",
    limits: profile.samples,
    clock,
    log: silentLog(),
    pins: () => [],
    neededForm: () => Promise.resolve({}),
  });
  for (let at = 0; at < 8; at++)
    await intake.append([
      { label: 0, values: new Array<number>(200_000).fill(at), timeMs: clock.now() - (8 - at) * hour },
    ]);
  return [(await intake.status()).samples, intake.range().from];
}

/** The block size and window that a device requests. */
async function asked(profile: Profile): Promise<readonly number[]> {
  const sent: Body[] = [];
  const downloads = new Downloads({
    files: memoryFiles(),
    folder: "/transfers",
    clock,
    blockBytes: profile.link.blockBytes,
    window: profile.link.window,
    send: (body) => {
      sent.push(body);
      return true;
    },
  });
  const ref = { kind: "tensor", id: id("tensor"), byteLength: 8 * profile.link.blockBytes } as const;
  const fetching = downloads.fetch(id("model"), [ref], 0).catch(() => undefined);
  const request = async (fits: (body: Body) => boolean): Promise<Body> => {
    for (;;) {
      const found = sent.find(fits);
      if (found !== undefined) return found;
      await new Promise((resolve) => {
        setImmediate(resolve);
      });
    }
  };
  const fetch = await request(({ type }) => type === "fetch");
  assert.ok(fetch.type === "fetch");
  downloads.onManifest({
    type: "manifest",
    transfer: fetch.transfer,
    part: 0,
    parts: 1,
    byteLength: ref.byteLength,
    blockBytes: profile.link.blockBytes,
    blockHashes: new Array(8).fill(id("block")),
    encodings: [],
  });
  const blocks = await request((body) => body.type === "blockRequest" && body.blocks.length > 0);
  downloads.stop();
  await fetching;
  return [fetch.blockBytes, blocks.type === "blockRequest" ? blocks.blocks.length : 0];
}

/** The block size that a device sends when the server would accept larger blocks. */
async function sentBlockBytes(profile: Profile): Promise<number> {
  const outbox = await Outbox.open({
    files: memoryFiles(),
    folder: "/outbox",
    clock,
    random: seededRandom("steers"),
    log: silentLog(),
  });
  const model = tinySource("1", 3000);
  const { versionId } = await outbox.saveTrained(model, {
    name: "m",
    fleet: "f",
    device: "d",
    line: "cam",
    base: undefined,
    metric: null,
    samples: null,
    environment: { backend: "none" },
  });
  let blockBytes = 0;
  const uploads = new Uploads({
    objects: outbox.objects,
    clock,
    log: silentLog(),
    blockBytes: profile.link.blockBytes,
    send: (_, message) => {
      if (message.type === "manifest") blockBytes = message.blockBytes;
      return Promise.resolve(true);
    },
  });
  const want: Want = {
    type: "want",
    reason: "tensors",
    versionId,
    transfer: "0".repeat(16),
    objects: [],
    bases: [],
    blockBytes: 256 * 1024,
    part: 0,
    parts: 1,
    more: false,
    tensorIndices: [0, 1, 2, 3],
  };
  await uploads.begin(want);
  uploads.onRequest({ type: "blockRequest", transfer: want.transfer, blocks: [], manifestParts: [0] });
  while (blockBytes === 0)
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
  await uploads.stop();
  await outbox.close();
  return blockBytes;
}

/** Whether coding is chosen on a fast link with a slow processor. */
const decided = (profile: Profile): boolean =>
  decideCoding({
    link: profile.link,
    measuredBytesPerSecond: 100 * MiB,
    coderBytesPerSecond: MiB,
    rawBytes: MiB,
    codedBytes: MiB / 2,
    tensors: 4,
  }).coded;
const kept = (profile: Profile): readonly string[] =>
  forgettable(
    keptVersions(
      foldFacts([1, 2, 3, 4, 5].flatMap((number) => [saved(number), receipt(number, "released", number)])),
      profile.save.releasedWhen,
    ),
    profile.disk.keepLast,
  );
const job = (profile: Profile) => settingsOf(profile);
const share = (profile: Profile): readonly string[] =>
  Array.from({ length: 100 }, (_, at) =>
    splitByContent(`${(at * 7).toString(16).padStart(8, "0")}`, profile.samples),
  );

/** Field → two values, and what is observed with each. */
const fields: Readonly<
  Record<string, readonly [a: unknown, b: unknown, see: (profile: Profile) => unknown]>
> = {
  "training.backends": [
    ["wasm"],
    ["native", "wasm"],
    (profile) => decideBackend(profile.training.backends, "nothing is linked"),
  ],
  "training.threads": [1, 2, (profile) => job(profile).threads],
  "training.memoryLimitMb": [256, 512, (profile) => job(profile).memoryLimitMb],
  "training.stateEverySeconds": [1, 60, (profile) => job(profile).stateEverySeconds],
  "training.dutyHours": [
    null,
    { from: 22, to: 6 },
    (profile) => scheduled({ ...profile, training: { ...profile.training, everyHours: 1 } }),
  ],
  "training.everyHours": [1, 3, scheduled],
  "training.afterSamples": [5, 6, scheduled],
  "link.blockBytes": [8192, 16384, async (profile) => [await asked(profile), await sentBlockBytes(profile)]],
  "link.window": [2, 5, asked],
  "link.bytesPerSecond": [
    10_000,
    null,
    (profile) => new Pacer(() => profile.link.bytesPerSecond, 0).book(50_000, 0),
  ],
  "link.coding": ["always", "never", decided],
  "link.metered": [
    true,
    false,
    (profile) => decided({ ...profile, link: { ...profile.link, coding: "auto" } }),
  ],
  "link.keepaliveSeconds": [30, 120, (profile) => mqttOptionsOf(profile).keepalive],
  "save.approach": ["snapshot", "update", (profile) => job(profile).approach],
  "save.releasedWhen": ["stored", "backed-up", kept],
  "save.keepCheckpoints": [1, 2, stateLimitsOf],
  "save.keepOptimizer": [true, false, stateLimitsOf],
  "save.stateBytes": [MiB, 2 * MiB, stateLimitsOf],
  activation: [
    "after-receipt",
    "after-outbox",
    (profile) => nextActivation(foldFacts([saved(1)]), "cam", profile.activation)?.sequence,
  ],
  "disk.budgetBytes": [200 * MiB, 300 * MiB, (profile) => allowedBytes(profile, "report")],
  "disk.reserveBytes.slots": [MiB, 2 * MiB, (profile) => allowedBytes(profile, "train")],
  "disk.reserveBytes.outbox": [MiB, 2 * MiB, (profile) => allowedBytes(profile, "install")],
  "disk.reserveBytes.head": [MiB, 2 * MiB, (profile) => allowedBytes(profile, "report")],
  "disk.keepLast": [1, 3, kept],
  "samples.maxBytes": [3 * MiB, 8 * MiB, intakeOf],
  "samples.maxAgeHours": [3, null, intakeOf],
  "samples.heldOutPercent": [10, 20, share],
  "samples.validationPercent": [0, 20, share],
};

function leavesOf(schema: Record<string, unknown>, path = ""): readonly string[] {
  const properties = schema["properties"] as Record<string, Record<string, unknown>> | undefined;
  if (properties === undefined) return [path];
  return Object.entries(properties).flatMap(([name, inner]) =>
    leavesOf(inner, path === "" ? name : `${path}.${name}`),
  );
}

describe("a profile controls the agent", () => {
  it("in every one of its fields", () => {
    const about = ["$schema", "format", "name", "description", "measured"];
    assert.deepEqual(
      leavesOf(z.toJSONSchema(profileSchema) as Record<string, unknown>)
        .filter((path) => !about.includes(path))
        .sort(),
      Object.keys(fields).sort(),
    );
  });
  for (const [path, [a, b, see]] of Object.entries(fields)) {
    it(`by ${path}`, async () => {
      assert.notDeepEqual(await see(testProfile({ [path]: a })), await see(testProfile({ [path]: b })));
    });
  }
});
