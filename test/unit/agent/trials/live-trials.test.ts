/** Trials on live inputs: what the software tells is kept, bounded, and ends with the trial. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { measureDisk } from "../../../../agent/measure-disk.js";
import { usedBytes } from "../../../../agent/resources/disk-budget.js";
import { sha256 } from "../../../../shared/tensor/hash.js";
import { failNth, faultyFiles } from "../../../helpers/files/faulty-files.js";
import { memoryFiles } from "../../../helpers/files/memory-files.js";
import { line, next, of, request, running, TrialDevice } from "./trials-under-test.js";

const losses = (trial: number, run: number) => ({ losses: { trial, running: run } });

describe("a trial on live inputs", () => {
  it("compares both versions on as many inputs as were asked for, and on no more", async () => {
    const device = new TrialDevice();
    const trials = await device.open(memoryFiles());
    assert.equal((await trials.forSoftware(line)).trial, null);
    const begun = await trials.ask(request);
    assert.deepEqual([begun.absent, begun.inputs, begun.losses], ["", 0, null]);
    const asked = await trials.forSoftware(line);
    assert.deepEqual(asked.trial, { versionId: next, folder: `/home/versions/${next}` });
    assert.deepEqual(asked.running, { versionId: running, folder: `/home/versions/${running}` });
    const taken = await trials.observe(
      line,
      of([
        { ...losses(0.5, 0.25), milliseconds: { running: 2, trial: 3 } },
        { outputs: { running: "cat", trial: "dog" }, label: "dog" },
        { failed: "trial" },
        { failed: "both" },
      ]),
    );
    assert.deepEqual(taken, { taken: 3, skipped: 1, compared: 2, wanted: 4, isComplete: false });
    await trials.observe(line, of([losses(1, 1), losses(2, 1), losses(900, 1)]));
    const answer = await trials.ask(request);
    // 0.25, -1, 0, 1: the fifth was not asked for.
    assert.deepEqual(answer.losses, {
      inputs: 4,
      meanDifference: 0.0625,
      standardDeviation: Math.sqrt(2.046875 / 3),
    });
    assert.deepEqual([answer.isComplete, answer.failed, answer.change], [true, { version: 1, before: 0 }, 1]);
    assert.equal(answer.slowdown, 1.5);
    assert.deepEqual(device.events, ["trial-complete"]);
    assert.equal((await trials.forSoftware(line)).trial, null);
    const more = await trials.observe(line, of([losses(5, 1)]));
    assert.deepEqual([more.taken, more.skipped], [0, 1]);
  });

  it("goes on after a restart, with outputs that wait for their labels and with its time", async () => {
    const device = new TrialDevice();
    const files = memoryFiles();
    const first = await device.open(files);
    await first.ask(request);
    const outputs = { running: [1, 2], trial: [1, 4] };
    await first.observe(
      line,
      of([{ id: "a", outputs, milliseconds: { running: 1, trial: 1 } }, losses(1, 2)]),
    );
    device.clock.advance(7 * 60_000);
    await first.stop();
    const second = await device.open(files);
    assert.deepEqual(second.status(line), {
      rollout: "spring",
      versionId: next,
      wanted: 4,
      compared: 1,
      waiting: 1,
      isOver: false,
    });
    // The folder is compared with its manifest again before the software gets it.
    device.installed.clear();
    assert.equal((await second.forSoftware(line)).trial?.versionId, next);
    assert.ok(device.installed.has(next));
    const labels = [
      { id: "a", label: [1, 5] },
      { id: "a", label: [1, 5] },
      { id: "unknown", label: [1, 5] },
    ];
    assert.deepEqual((await second.observe(line, of(labels))).taken, 1);
    const { losses: told, change, slowdown } = await second.ask(request);
    // |2 - 5| / 2 became |4 - 5| / 2; the other input gave -1.
    assert.deepEqual([told?.inputs, told?.meanDifference, change, slowdown], [2, -1, 1, 1]);
    device.clock.advance(53 * 60_000);
    assert.equal((await second.ask(request)).isOver, true);
    assert.equal((await second.forSoftware(line)).trial, null);
    assert.equal((await second.observe(line, of([losses(1, 1)]))).taken, 0);
  });

  it("takes nothing of a request in which one observation is not valid", async () => {
    const device = new TrialDevice();
    const trials = await device.open(memoryFiles());
    await trials.ask(request);
    const invalid = [
      {},
      { label: 3 },
      { id: "a" },
      { failed: "trial", label: "cat" },
      { outputs: { running: "cat", trial: 3 } },
      { outputs: { running: [1, 2], trial: [1] } },
      { outputs: { running: 1, trial: 2 }, label: [1] },
      { ...losses(1, 1), label: 1 },
    ] as const;
    for (const observation of invalid)
      await assert.rejects(trials.observe(line, of([losses(1, 1), observation])), { code: "SAMPLE_INVALID" });
    assert.equal((await trials.ask(request)).inputs, 0);
  });

  it("refuses what is told of other models than those on trial", async () => {
    const device = new TrialDevice();
    const trials = await device.open(memoryFiles());
    const refused = { code: "TRIAL_REFUSED" };
    await assert.rejects(trials.observe(line, of([losses(1, 1)])), refused);
    await trials.ask(request);
    await assert.rejects(trials.observe(line, { ...of([losses(1, 1)]), running: sha256("old") }), refused);
    await assert.rejects(trials.ask({ ...request, before: sha256("other") }), refused);
    await assert.rejects(trials.ask({ ...request, versionId: sha256("absent") }), {
      code: "MODEL_NOT_FOUND",
    });
    // The line switched meanwhile: what was told was of another comparison.
    device.runs = sha256("trained");
    await assert.rejects(trials.observe(line, of([losses(1, 1)])), refused);
    assert.equal((await trials.forSoftware(line)).trial, null);
    assert.ok(device.staged.has(next));
  });

  it("keeps little of software that floods it", async () => {
    const device = new TrialDevice();
    const trials = await device.open(memoryFiles());
    const asked = { ...request, inputs: 5000 };
    await trials.ask(asked);
    const flood = of(Array.from({ length: 1000 }, () => losses(1, 1)));
    assert.equal((await trials.observe(line, flood)).taken, 600);
    assert.equal((await trials.observe(line, flood)).taken, 0);
    device.clock.advance(30_000);
    assert.equal((await trials.observe(line, flood)).taken, 300);
    const waiting = of(
      Array.from({ length: 1000 }, (_, i) => ({ id: `${i}`, outputs: { running: 1, trial: 1 } })),
    );
    for (let minutes = 0; minutes < 9; minutes++) {
      device.clock.advance(60_000);
      waiting.observations.forEach((one) => ((one as { id: string }).id += "x"));
      await trials.observe(line, waiting);
    }
    assert.equal(trials.status(line)?.waiting, 2000);
  });

  it("knows by what the software asks whether it takes part", async () => {
    const device = new TrialDevice();
    const trials = await device.open(memoryFiles());
    assert.match((await trials.ask(request)).absent, /has not asked for trials/);
    await trials.forSoftware(line);
    assert.equal(trials.absence(line), "");
    device.clock.advance(11 * 60_000);
    assert.match(trials.absence(line), /for 10 minutes/);
  });
});

describe("the end of a trial", () => {
  it("by the server removes the version, unless another rollout has it on trial", async () => {
    const device = new TrialDevice();
    const files = memoryFiles();
    const trials = await device.open(files);
    await trials.ask(request);
    const end = { line, rollout: "winter", versionId: next, end: true } as const;
    await trials.end(end);
    assert.ok(device.installed.has(next) && device.staged.has(next));
    await trials.end({ ...end, rollout: "spring" });
    assert.deepEqual([device.installed.size, device.staged.size, trials.inUse.size], [0, 0, 0]);
    assert.equal((await device.open(files)).status(line), undefined);
    // It may be told twice.
    await trials.end({ ...end, rollout: "spring" });
  });

  it("by another rollout drops what was told, and the version where it is another one", async () => {
    const device = new TrialDevice();
    const trials = await device.open(memoryFiles());
    await trials.ask(request);
    await trials.observe(line, of([losses(1, 1)]));
    assert.equal((await trials.ask({ ...request, rollout: "again" })).inputs, 0);
    assert.ok(device.staged.has(next));
    const newer = sha256("newer");
    device.staged.add(newer);
    await trials.ask({ ...request, versionId: newer });
    assert.deepEqual([[...device.staged], [...device.installed]], [[newer], [newer]]);
  });

  it("by a revocation removes the version before anybody asks", async () => {
    const device = new TrialDevice();
    const trials = await device.open(memoryFiles());
    await trials.ask(request);
    device.revoked = true;
    await trials.housekeeping();
    assert.deepEqual([device.installed.size, device.staged.size], [0, 0]);
    await assert.rejects(trials.ask(request), { code: "MODEL_NOT_FOUND" });
  });
});

describe("the disk of a trial", () => {
  it("is counted in the device's budget, until the trial ends", async () => {
    const device = new TrialDevice();
    const files = memoryFiles();
    const trials = await device.open(files);
    const outbox = { bytes: () => Promise.resolve({ packs: 0, journal: 0 }) };
    const current = { bytes: () => Promise.resolve(0) };
    const used = async (): Promise<number> =>
      usedBytes(
        await measureDisk({
          ...{ files, home: "/home", lines: [line], outbox, current, intakes: new Map() },
          states: { bytes: () => Promise.resolve(0) },
        }),
      );
    assert.equal(await used(), 0);
    await trials.ask(request);
    const before = await used();
    const outputs = { running: [0.1, 0.2], trial: [0.1, 0.3] };
    const waiting = Array.from({ length: 100 }, (_, i) => ({ id: `input ${i}`, outputs }));
    assert.equal((await trials.observe(line, of(waiting))).taken, 100);
    assert.ok((await used()) > before + 100 * JSON.stringify(outputs).length);
    await trials.end({ ...request, end: true });
    assert.equal(await used(), 0);
  });

  it("that cannot be written says so, and what was acknowledged stays", async () => {
    const device = new TrialDevice();
    const plan = { isFull: false };
    const full = failNth(0, { code: "ENOSPC" }, { kinds: ["write"], isPermanent: true });
    const files = faultyFiles(memoryFiles(), (operation) => (plan.isFull ? full(operation) : undefined));
    const trials = await device.open(files);
    await trials.ask(request);
    await trials.observe(line, of([losses(1, 1)]));
    plan.isFull = true;
    await assert.rejects(trials.observe(line, of([losses(1, 1)])));
    plan.isFull = false;
    assert.equal((await trials.ask(request)).inputs, 1);
    assert.equal((await trials.observe(line, of([losses(1, 1)]))).compared, 2);
  });

  it("that changed a bit lets the trial begin again", async () => {
    const device = new TrialDevice();
    const files = memoryFiles();
    const trials = await device.open(files);
    await trials.ask(request);
    await trials.observe(line, of([losses(1, 1), losses(2, 2)]));
    await trials.stop();
    const folder = `/home/trials/${line}`;
    for (const name of await files.list(folder)) {
      const file = await files.open(`${folder}/${name}`, "update");
      await file.write(Uint8Array.of(0xff, 0xff, 0xff), 60);
      await file.close();
    }
    const again = await device.open(files);
    assert.equal((await again.ask(request)).inputs, 0);
    assert.equal((await again.observe(line, of([losses(1, 1)]))).compared, 1);
  });
});
