/** The trainer with the real outbox and activator on a folder, and a training that takes no time. */
import { TrainingBackends } from "../../../../agent/backend/training-backend.js";
import { anyRelease, noHooks, noRecipes } from "../../../helpers/any-release.js";
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { openProvenance } from "../../../../shared/provenance/openings.js";
import { CurrentStore } from "../../../../agent/current/current-store.js";
import { Activator } from "../../../../agent/lines/activator.js";
import { Outbox } from "../../../../agent/outbox/outbox.js";
import { activeVersion } from "../../../../agent/outbox/outbox-state.js";
import type { DiskUse } from "../../../../agent/resources/disk-budget.js";
import { parseConfig } from "../../../../agent/settings/config.js";
import { Trainer } from "../../../../agent/trainer/trainer.js";
import { nodeClock, nodeRandom } from "../../../../shared/adapters/node-ports.js";
import { nodeFiles } from "../../../../shared/files/node-files.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import {
  fakeTraining,
  layoutOfOwnNames,
  testProfile,
  tinySource,
  WaitableLog,
} from "../../../helpers/agent-fixtures.js";
import { pollUntil } from "../../../helpers/poll-until.js";
import { freeDisk } from "../../../helpers/free-disk.js";

const line = "cam";

async function openTrainer(
  t: TestContext,
  diskUse: () => DiskUse = () => freeDisk,
  beforeTraining: () => Promise<void> = () => Promise.resolve(),
  {
    rounds = 1,
    program,
  }: { readonly rounds?: number; readonly program?: { readonly exec: readonly string[] } } = {},
) {
  const home = await mkdtemp(join(tmpdir(), "stemma-trainer-"));
  const files = nodeFiles();
  const clock = nodeClock();
  const log = new WaitableLog();
  const profile = testProfile();
  const config = parseConfig(
    {
      format: 1,
      lines: {
        [line]: {
          ...(program === undefined ? { recipe: "fake" } : { trainer: program }),
          dataset: { reader: "images-generated" },
          schedule: { everySeconds: 0.01, rounds },
        },
      },
    },
    "test",
  );
  const outbox = await Outbox.open({ files, folder: join(home, "outbox"), clock, random: nodeRandom(), log });
  const current = await CurrentStore.open(files, home, clock);
  const common = {
    files,
    home,
    outbox,
    profile,
    clock,
    log,
    diskUse: () => Promise.resolve(diskUse()),
    clockErrorMs: () => null,
  };
  const activator = new Activator({
    ...common,
    current,
    releases: anyRelease,
    hooks: noHooks,
    session: () => 1,
  });
  const { train, jobs } = fakeTraining();
  const trainer = new Trainer({
    ...common,
    config,
    activator,
    random: nodeRandom(),
    commandOwner: process.getuid?.(),
    train: async (job, options) => {
      await beforeTraining();
      return await train(job, options);
    },
    enrolment: { fleet: "f", device: "d", lines: [line] },
    intakes: new Map(),
    recipes: noRecipes,
    states: { replace: () => Promise.resolve() },
    evaluate: () => assert.fail("nothing is measured"),
    backends: new TrainingBackends({ files, home, ...profile.training }),
    version: "test",
    isOnline: () => true,
    isSwitchedOff: () => false,
    utcOffsetMinutes: () => 0,
    onTrained: () => undefined,
    onEvent: (name, text) => {
      log.warn(name, { text });
    },
  });
  t.after(async () => {
    await trainer.stop();
    await outbox.close();
    await rm(home, { recursive: true, force: true });
  });
  return { outbox, activator, trainer, jobs, log };
}

/** Saves a model of the line, and the server's receipt of it. */
async function saveRecorded(
  outbox: Outbox,
  seed: string,
  base: Hash | undefined,
  attachments: readonly { readonly name: string; readonly bytes: Uint8Array }[] = [],
): Promise<Hash> {
  const { versionId } = await outbox.saveTrained(tinySource(seed), {
    name: "m",
    fleet: "f",
    device: "d",
    line,
    base,
    metric: null,
    samples: null,
    environment: { backend: "none" },
    attachments,
  });
  await outbox.append({ ...receiptOf(seed), versionId });
  return versionId;
}

/** The server's receipt, without its version. */
function receiptOf(seed: string) {
  const number = Number(seed);
  return {
    type: "receipt",
    atMs: 0,
    kind: "recorded",
    position: number,
    backedUpTo: 0,
    name: "m",
    version: number,
  } as const;
}

/** Who began the training of a version, by its provenance. */
async function callerOf(outbox: Outbox, versionId: Hash | undefined): Promise<unknown> {
  const { objects } = (await outbox.record(versionId as Hash)).record;
  const { openings } = openProvenance(
    await outbox.objects.read("provenance", objects.provenance as Hash),
    await outbox.objects.read("openings", objects.openings as Hash),
  );
  return openings["by"]?.value;
}

describe("a scheduled training", () => {
  it("starts from a model whose receipt is here and that is not active yet", async (t) => {
    const { outbox, activator, trainer, jobs, log } = await openTrainer(t);
    const first = await saveRecorded(outbox, "1", undefined);
    await activator.activateNewest(line);
    const second = await saveRecorded(outbox, "2", first);
    assert.equal(activeVersion(outbox.state, line), first);
    await trainer.start();
    await log.until("trained", 1, { line });
    assert.equal(jobs[0]?.base?.versionId, second);
    assert.equal(activeVersion(outbox.state, line), second);
  });

  it("is not run where another model was chosen while it trained, and the next one starts from that", async (t) => {
    const choose: (() => Promise<void>)[] = [];
    const { outbox, activator, trainer, jobs } = await openTrainer(t, undefined, async () => {
      await choose.pop()?.();
    });
    const other = await saveRecorded(outbox, "1", undefined);
    const first = await saveRecorded(outbox, "2", undefined);
    await activator.activateNewest(line);
    choose.push(() => activator.activate(line, other));
    const { versionId } = await trainer.request(line);
    await outbox.append({ ...receiptOf("3"), versionId });
    assert.equal(await activator.activateNewest(line), undefined);
    assert.equal(activeVersion(outbox.state, line), other);
    await trainer.request(line);
    assert.deepEqual(
      jobs.map(({ base }) => base?.versionId),
      [first, other],
    );
  });

  it("has the layout of its base, so that the device has it in the names of the base's file too", async (t) => {
    const { outbox, activator, trainer } = await openTrainer(t);
    await saveRecorded(outbox, "1", undefined, [await layoutOfOwnNames(tinySource("1"))]);
    await activator.activateNewest(line);
    const { versionId } = await trainer.request(line);
    await outbox.append({ ...receiptOf("2"), versionId });
    await activator.activateNewest(line);
    const folder = activator.base(line)?.folder ?? assert.fail();
    const original = await readFile(join(folder, "original.safetensors"));
    const installed = await readFile(join(folder, "model.safetensors"));
    assert.match(original.toString("latin1"), /"own\.0"/);
    const dataOf = (file: Buffer): Buffer => file.subarray(8 + Number(file.readBigUInt64LE(0)));
    assert.deepEqual(dataOf(original), dataOf(installed));
  });

  it("by a program waits for the space that the file in the layout of its base needs in its folder", async (t) => {
    let free = freeDisk.free;
    const { outbox, activator, trainer } = await openTrainer(t, () => ({ ...freeDisk, free }), undefined, {
      program: { exec: ["/bin/false"] },
    });
    const version = await saveRecorded(outbox, "1", undefined, [await layoutOfOwnNames(tinySource("1"))]);
    await activator.activateNewest(line);
    const { reserveBytes } = testProfile().disk;
    const reserved = reserveBytes.slots + reserveBytes.outbox + reserveBytes.head;
    free = reserved + 3 * (outbox.entry(version)?.tensorBytes ?? 0) - 1;
    await assert.rejects(trainer.request(line), { code: "DISK_BUDGET_EXHAUSTED" });
  });

  it("starts from the model as it was made, also where a bit of the installed file has flipped", async (t) => {
    const { outbox, activator, trainer, log } = await openTrainer(t);
    await saveRecorded(outbox, "1", undefined);
    await activator.activateNewest(line);
    const path = join(activator.base(line)?.folder ?? assert.fail(), "model.safetensors");
    const installed = await readFile(path);
    const damaged = Uint8Array.from(installed);
    damaged[damaged.length - 1] = (damaged.at(-1) ?? 0) ^ 1;
    await writeFile(path, damaged);
    await trainer.start();
    await log.until("trained", 1, { line });
    assert.deepEqual(await readFile(path), installed);
    assert.equal(log.count("slot-damaged"), 1);
  });

  it("records who asked for it, or that nobody did", async (t) => {
    const { outbox, activator, trainer, log } = await openTrainer(t);
    await saveRecorded(outbox, "1", undefined);
    await activator.activateNewest(line);
    await trainer.start();
    await log.until("trained", 1, { line });
    assert.equal(await callerOf(outbox, outbox.state.lines.get(line)?.versions.at(-1)), null);
    const by = { who: "ann@van", through: "socket" } as const;
    const { versionId } = await trainer.request(line, { parameters: { epochs: 2 }, by });
    assert.deepEqual(await callerOf(outbox, versionId), by);
  });

  it("that failed is the reason why its line stands still, until a training succeeds", async (t) => {
    let isFailing = true;
    const opened = await openTrainer(t, undefined, () =>
      isFailing ? Promise.reject(new Error("fails as the test demands")) : Promise.resolve(),
    );
    const { outbox, activator, trainer, log } = opened;
    await saveRecorded(outbox, "1", undefined);
    await activator.activateNewest(line);
    await trainer.start();
    await log.until("training-failed", 1, ({ text }) => String(text).includes("as the test demands"));
    assert.match(trainer.standstill(line) ?? "", /last training failed/);
    isFailing = false;
    await trainer.request(line, {});
    assert.doesNotMatch(trainer.standstill(line) ?? "", /last training failed/);
  });

  it("leaves time for an evaluation that was refused because of the training before", async (t) => {
    let end: () => void = () => undefined;
    const ends = new Promise<void>((resolve) => (end = resolve));
    const { outbox, activator, trainer, log } = await openTrainer(t, undefined, () => ends, { rounds: 2 });
    await saveRecorded(outbox, "1", undefined);
    await activator.activateNewest(line);
    await trainer.start();
    await log.until("training", 1, { line, invocation: 1 });
    await pollUntil("the training runs", () => trainer.running !== undefined);
    await assert.rejects(
      trainer.between(() => Promise.resolve()),
      { code: "TRAINING_REFUSED" },
    );
    end();
    await log.until("trained", 1, { line });
    const versionId = outbox.state.lines.get(line)?.versions.at(-1);
    await outbox.append({ ...receiptOf("2"), versionId: versionId ?? assert.fail() });
    await activator.activateNewest(line);
    trainer.wake();
    await pollUntil("time is left for an evaluation", () =>
      /is expected/.test(trainer.standstill(line) ?? ""),
    );
    assert.equal(await trainer.between(() => Promise.resolve(log.count("training"))), 1);
    await log.until("training", 1, { line, invocation: 2 });
  });

  it("waits while that model cannot be installed, and reports why", async (t) => {
    let isFull = true;
    const { outbox, activator, trainer, jobs, log } = await openTrainer(t, () =>
      isFull ? { ...freeDisk, free: 0 } : freeDisk,
    );
    isFull = false;
    const first = await saveRecorded(outbox, "1", undefined);
    await activator.activateNewest(line);
    await saveRecorded(outbox, "2", first);
    isFull = true;
    await trainer.start();
    await log.until("activation-failed");
    assert.deepEqual(jobs, []);
  });
});
