/** The slot of a model with a layout that an earlier agent installed, without the file in the names of that. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { CurrentStore } from "../../../../agent/current/current-store.js";
import { Activator } from "../../../../agent/lines/activator.js";
import { Outbox } from "../../../../agent/outbox/outbox.js";
import type { DiskUse } from "../../../../agent/resources/disk-budget.js";
import { originalFileName, slotFilesOf } from "../../../../shared/layouts/slot-files.js";
import type { Files } from "../../../../shared/ports.js";
import { recoverModel } from "../../../../shared/recover/recover-model.js";
import {
  layoutOfOwnNames,
  saveBase,
  testProfile,
  tinySource,
  WaitableLog,
} from "../../../helpers/agent-fixtures.js";
import { anyRelease, noHooks } from "../../../helpers/any-release.js";
import { faultyFiles, fullAfter } from "../../../helpers/files/faulty-files.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { freeDisk } from "../../../helpers/free-disk.js";
import { manualClock, seededRandom } from "../../../helpers/manual-clock.js";

const line = "cam";

/** A line that runs a model with a layout, as an earlier agent installed it. */
async function openEarlier(wrapped: (files: Files) => Files = (files) => files) {
  const plain = memoryFiles();
  const clock = manualClock();
  const log = new WaitableLog();
  const random = seededRandom("slots");
  const outbox = await Outbox.open({ files: plain, folder: "/outbox", clock, random, log });
  const model = tinySource("1", 100);
  const versionId = await saveBase(outbox, model, line, [await layoutOfOwnNames(model)]);
  const early = await CurrentStore.open(plain, "/home", clock);
  const { record } = await outbox.record(versionId);
  const { name, contentId, root } = record;
  await early.install(
    { versionId, name, contentId, root },
    slotFilesOf(await recoverModel(outbox.objects, versionId, clock)),
  );
  await early.activate(line, versionId);
  const files = wrapped(plain);
  let disk: DiskUse = freeDisk;
  const current = await CurrentStore.open(files, "/home", clock);
  const activator = new Activator({
    files,
    outbox,
    current,
    profile: testProfile(),
    clock,
    log,
    diskUse: () => Promise.resolve(disk),
    clockErrorMs: () => null,
    session: () => 1,
    releases: anyRelease,
    hooks: noHooks,
  });
  return {
    ...{ activator, current, log, versionId, files: plain },
    setDisk: (given: DiskUse) => {
      disk = given;
    },
    fileHere: async () => await current.fileOf(versionId, originalFileName),
  };
}

it("gets the file when the agent starts, and what was there stays as it is", async () => {
  const { activator, current, log, versionId, fileHere } = await openEarlier();
  const before = await current.fileOf(versionId, "model.safetensors");
  assert.equal(await fileHere(), undefined);
  await activator.reconcile([line]);
  assert.match(Buffer.from((await fileHere()) ?? assert.fail()).toString("latin1"), /"own\.0"/u);
  assert.equal(await current.isSound(versionId), true);
  assert.deepEqual(await current.fileOf(versionId, "model.safetensors"), before);
  assert.deepEqual([log.count("slot-completed"), log.count("slot-incomplete")], [1, 0]);
  await activator.reconcile([line]);
  assert.equal(log.count("slot-completed"), 1);
});

it("serves as before where the budget has no space, and gets the file at a later use", async () => {
  const { activator, current, log, versionId, fileHere, setDisk } = await openEarlier();
  setDisk({ ...freeDisk, free: 0 });
  await activator.reconcile([line]);
  assert.deepEqual([await fileHere(), log.count("slot-incomplete")], [undefined, 1]);
  assert.equal(await current.isSound(versionId), true);
  setDisk(freeDisk);
  assert.equal((await activator.soundBase(line))?.versionId, versionId);
  assert.notEqual(await fileHere(), undefined);
});

it("serves as before where the disk is full, and nothing of the file is left on it", async () => {
  const { plan, free } = fullAfter(100);
  const opened = await openEarlier((files) => faultyFiles(files, plan));
  const { activator, current, log, versionId, fileHere, files } = opened;
  await activator.reconcile([line]);
  assert.deepEqual([await fileHere(), log.count("slot-incomplete")], [undefined, 1]);
  assert.equal(await current.isSound(versionId), true);
  assert.deepEqual(await files.list("/home/versions"), [versionId]);
  free(2 ** 20);
  await activator.reconcile([line]);
  assert.notEqual(await fileHere(), undefined);
});
