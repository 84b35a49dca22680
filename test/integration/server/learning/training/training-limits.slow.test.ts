/** What a training is told and predicted to take, and limits of recipes that are tried. */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { readOpenedProvenance } from "../../../../../server/services/context/opened-provenance.js";
import { openFleets } from "../../../../../server/services/context/open-fleets.js";
import { storyOfKey } from "../../../../../server/services/data/kept-story.js";
import { localOperations } from "../../../../../server/operations/local-operations.js";
import type { FleetRepository } from "../../../../../server/storage/repository/fleet-repository.js";
import { openNodeHome } from "../../../../../server/storage/repository/node-home.js";
import { makeProvenance } from "../../../../../shared/provenance/make-provenance.js";
import { modelSourceOfTensors } from "../../../../../shared/save/model-source.js";
import { copiedTensors } from "../../../../helpers/copied-tensors.js";
import type { TrainProgress } from "../../../../../server/interface/api/models/evaluation-schemas.js";
import type { ServerOperations } from "../../../../../server/interface/api/server-operations.js";
import { connectOperations } from "../../../../../server/interface/http/client.js";
import { checkRecipe } from "../../../../../server/learning/training/check-recipe.js";
import { scaffold } from "../../../../../shared/train/own-recipes/scaffold.js";
import { manualClock } from "../../../../helpers/manual-clock.js";
import { startTestServer, testFleet as fleet, type TestServer } from "../../../../helpers/test-server.js";

type SaveOptionsOf = Partial<Parameters<FleetRepository["save"]>[1]>;

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
  it("says what it takes when it begins, and from then on", async () => {
    const told: TrainProgress[] = [];
    await remote.train(
      { ...request, parameters: { epochs: 1 }, maxMinutes: 4 },
      { onProgress: (one) => void told.push(one) },
    );
    const own: TrainProgress[] = [];
    await server.handle.operations.train(
      { ...request, parameters: { epochs: 1 } },
      { onProgress: (one) => void own.push(one) },
    );
    for (const [heard, minutes] of [
      [told, "4 minutes"],
      [own, "3 minutes"],
    ] as const) {
      const last = heard.at(-1);
      assert.ok(last?.prediction?.endsWith(`; it is ended after ${minutes}`), JSON.stringify(last));
      assert.equal(last?.maxMinutes, Number(minutes.slice(0, 1)));
    }
    const first = own.findIndex(({ prediction }) => prediction !== undefined);
    assert.equal(own[first]?.line, `soh: ${own[first]?.prediction}`);
    assert.ok(!own.slice(0, first).some(({ line }) => line.startsWith("training")));
  });
});

describe("a training within its limits", () => {
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "stemma-limits-"));
  });
  after(() => rm(folder, { recursive: true, force: true }));
  const limits = { maxMinutes: 1, mostMinutes: 3, memoryLimitMb: 512 };

  it("also bounds a recipe that is tried", async () => {
    const trial = {
      // Its plan decides, whatever the parameters say.
      bundle: Buffer.from(scaffold.replace("data.samples < 500 ? 8 : 32", "1")),
      confinement: "interpreter" as const,
      dataset: { reader: "battery-simulated", parameters: { cells: 8 } },
      parameters: long,
      seed: "1",
      folder: join(folder, "tried"),
      clock: manualClock(),
      limits,
    };
    await assert.rejects(checkRecipe(trial), {
      code: "TRAINING_TOO_LONG",
      message: /at least \d+ minutes/,
    });
  });
});

describe("what a training is predicted to take", () => {
  it("follows from trainings that ran here, not from what devices and files state", async () => {
    const path = await mkdtemp(join(tmpdir(), "stemma-rates-"));
    const home = await openNodeHome(path);
    const fleets = openFleets(home);
    try {
      const operations = localOperations({ home, fleets, version: "test" });
      const repository = await fleets.get(fleet, { create: true });
      const cells = { kind: "battery-simulated", location: "", parameters: { cycles: 100, cells: 1 } };
      await operations.addDataset({ fleet, name: "cells", ...cells });
      const training = {
        fleet,
        recipe: "battery-soh",
        data: "cells",
        name: "soh",
        parameters: { epochs: 1 },
      };
      await operations.train(training);
      const { record, versionId } = repository.resolve("soh:1");
      const opened = await readOpenedProvenance(repository, record.objects);
      assert.ok(opened !== undefined);
      const model = await repository.recover(versionId);
      const saveAs = async (name: string, workMs: number, more: SaveOptionsOf = {}): Promise<void> => {
        const members = Object.fromEntries(
          Object.entries(opened.openings).map(([member, { value }]) => [member, value]),
        );
        const times = { endedAtMs: 1, workMs };
        const { committed: _, ...shared } = opened.provenance;
        await repository.save(
          modelSourceOfTensors(model.architecture!, await copiedTensors(model.sources), model.names),
          { name, ...makeProvenance(shared, { ...members, times }, home.ports.random), ...more },
        );
      };
      const hourMs = 3_600_000;
      await saveAs("own", 7 * 60_000);
      await saveAs("imported", 100 * hourMs, { metadata: { [storyOfKey]: versionId } });
      await saveAs("sent", 100 * hourMs, { device: "car", line: "pack" });
      await assert.rejects(operations.train({ ...training, maxMinutes: 5 }), {
        code: "TRAINING_TOO_LONG",
        message: /takes about [78] minutes, by .*of its recipe here, and 5 are allowed.*--max-minutes 1[46]/,
      });
    } finally {
      await fleets.close();
      await home.close();
      await rm(path, { recursive: true, force: true });
    }
  });
});
