// What a training on the server may take, as predicted before its first step and as it takes: over HTTP as on the
// machine itself, and for recipes that are tried.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import type { ServerOperations } from "../../../../../server/interface/api/server-operations.js";
import { connectOperations } from "../../../../../server/interface/http/client.js";
import { trainWithinLimits } from "../../../../../server/learning/training/limited-training.js";
import { jobFormat, type PlannedTraining, type TrainingJob } from "../../../../../shared/train/training.js";
import { manualClock } from "../../../../helpers/manual-clock.js";
import { startTestServer, testFleet as fleet, type TestServer } from "../../../../helpers/test-server.js";

const long = { epochs: 10_000, batchSize: 1, patience: 0 };

describe("a training on the server", () => {
  let server: TestServer;
  let remote: ServerOperations;
  const request = { fleet, recipe: "battery-soh", data: "cells", name: "soh" };
  before(async () => {
    server = await startTestServer({ trainingLimits: { maxMinutes: 3, requestMinutes: 6, memoryMiB: 64 } });
    remote = connectOperations({ socketPath: server.handle.socketPath }, 20);
    await remote.addDataset({
      fleet,
      name: "cells",
      kind: "battery-simulated",
      location: "",
      parameters: { cells: 24 },
    });
  });
  after(async () => {
    await remote.close();
    await server.remove();
  });
  /** Nothing of a training is on the disk, and no version was saved. */
  const requireNothing = async (): Promise<void> => {
    assert.deepEqual(await readdir(join(server.home, "run", "trainings")), []);
    assert.deepEqual(await remote.models({ fleet }), []);
  };

  it("is refused before its first step where it would take longer than it may", async () => {
    const phases: string[] = [];
    const refused = remote.train(
      { ...request, parameters: long },
      { onProgress: ({ line }) => void phases.push(line) },
    );
    await assert.rejects(refused, {
      code: "TRAINING_TOO_LONG",
      message: /training of soh takes at least \d+ minutes, by its epochs.* 3 are allowed\. /,
    });
    assert.ok(!phases.some((line) => line.startsWith("training")), phases.join("; "));
    await requireNothing();
  });

  it("is given no more than the owner lets requests allow", async () => {
    await assert.rejects(remote.train({ ...request, parameters: long, maxMinutes: 10_080 }), {
      code: "TRAINING_TOO_LONG",
      message: / 6 are allowed\. At most 6 can be allowed \(limits\.training\.requestMinutes/,
    });
    await requireNothing();
  });

  it("is refused where its tensors would take more memory than they may", async () => {
    const images = { name: "images", kind: "images-generated", location: "" };
    await remote.addDataset({ fleet, ...images });
    const wide = { recipe: "image-classify", data: "images", parameters: { epochs: 1, batchSize: 4096 } };
    await assert.rejects(remote.train({ ...request, ...wide }), {
      code: "MEMORY_EXHAUSTED",
      message: /limits\.training\.memoryMiB/,
    });
    await requireNothing();
  });

  it("leaves nothing where it is stopped before a state of it was saved", async () => {
    const stopped = new AbortController();
    const training = server.handle.operations.train(
      { ...request, parameters: { epochs: 500, patience: 0 } },
      {
        signal: stopped.signal,
        onProgress: ({ prediction }) => {
          if (prediction !== undefined) stopped.abort();
        },
      },
    );
    await assert.rejects(training, { code: "TRAINING_STOPPED" });
    await requireNothing();
  });
});

describe("a training within its limits", () => {
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "stemma-limits-"));
  });
  after(() => rm(folder, { recursive: true, force: true }));
  const job: TrainingJob = {
    format: jobFormat,
    recipe: "battery-soh",
    parameters: long,
    dataset: { reader: "battery-simulated", parameters: { cycles: 100, cells: 1 } },
    seed: "1",
    invocation: 0,
  };
  const limits = { maxMinutes: 1, mostMinutes: 3, memoryLimitMb: 512 };

  it("is ended when its time is over, and says what it was going to do", async () => {
    const clock = manualClock();
    const plans: PlannedTraining[] = [];
    const ended = trainWithinLimits(job, {
      what: "soh",
      clock,
      limits,
      workFolder: join(folder, "ended"),
      predict: (planned) => {
        plans.push(planned);
        return { ms: 1, memoryBytes: 1, basis: "by a test" };
      },
      onProgress: ({ phase }) => {
        if (phase === "training") clock.advance(60_000);
      },
    });
    await assert.rejects(ended, {
      code: "TRAINING_TOO_LONG",
      message: /ended after 1 minute, .*--max-minutes, at most 3/,
    });
    const [plan] = plans;
    assert.equal(plans.length, 1);
    assert.equal(plan?.epochs, 10_000);
    assert.equal(plan?.steps, 10_000 * (plan?.samples.train ?? 0), "one sample a step");
    assert.ok((plan?.operations ?? 0) > (plan?.steps ?? 0) && (plan?.memoryBytes ?? 0) > 0);
    assert.ok(!existsSync(join(folder, "ended", "result", "result.json")));
  });
});
