/** A replay compares the checkpoints and the optimizer's state of a version, too, and names where they part. */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { localOperations } from "../../../../../server/operations/local-operations.js";
import type { ServerOperations } from "../../../../../server/interface/api/server-operations.js";
import { openFleets, type OpenFleets } from "../../../../../server/services/context/open-fleets.js";
import type { FleetRepository } from "../../../../../server/storage/repository/fleet-repository.js";
import type { Home } from "../../../../../server/storage/repository/home.js";
import { openNodeHome } from "../../../../../server/storage/repository/node-home.js";
import { modelSourceOfTensors, opaqueModelSource } from "../../../../../shared/save/model-source.js";
import type { SaveUses } from "../../../../../shared/save/save-uses.js";
import { copiedTensors } from "../../../../helpers/copied-tensors.js";

const fleet = "cars";

describe("a replay of a version with checkpoints", () => {
  let path: string;
  let home: Home;
  let fleets: OpenFleets;
  let operations: ServerOperations;
  let repository: FleetRepository;
  before(async () => {
    path = await mkdtemp(join(tmpdir(), "stemma-states-"));
    home = await openNodeHome(path);
    fleets = openFleets(home);
    operations = localOperations({ home, fleets, version: "test" });
    repository = await fleets.get(fleet, { create: true });
    await operations.addDataset({ fleet, name: "cells", kind: "battery-simulated", location: "" });
    const parameters = { epochs: 3, units: 8, keepOptimizer: true, checkpointEveryEpochs: 1 };
    await operations.train({
      fleet,
      recipe: "battery-soh",
      data: "cells",
      name: "soh",
      seed: "7",
      parameters,
    });
  });
  after(async () => {
    await fleets.close();
    await home.close();
    await rm(path, { recursive: true, force: true });
  });

  const iterationsOf = (): readonly number[] =>
    repository.resolve("soh").record.uses?.checkpoints?.map(({ iteration }) => iteration) ?? [];

  /** Saves the version under another name, with a flipped bit in what it kept. */
  async function saveLie(name: string, flipped: number | "optimizer"): Promise<string> {
    const { versionId, record } = repository.resolve("soh");
    const { architecture, sources, names } = await repository.recover(versionId);
    const modelOf = async (from: typeof sources, bit?: number) =>
      modelSourceOfTensors(architecture!, await copiedTensors(from, bit), names);
    const checkpoints: NonNullable<SaveUses["checkpoints"]>[number][] = [];
    for (const iteration of iterationsOf()) {
      const kept = await repository.recover(versionId, { part: { checkpoint: iteration } });
      const model = await modelOf(kept.sources, iteration === flipped ? 0 : undefined);
      checkpoints.push({ iteration, model });
    }
    const state = await repository.recover(versionId, { part: "optimizer" });
    const tensors = await copiedTensors(state.sources, flipped === "optimizer" ? 0 : undefined);
    const optimizer = opaqueModelSource(
      tensors.map((tensor, at) => ({ ...tensor, name: state.leaves[at]!.path })),
    );
    const read = (kind: "provenance" | "openings" | "metadata" | "measurements") =>
      repository.objects.read(kind, record.objects[kind]!);
    await repository.save(await modelOf(sources), {
      name,
      bases: [],
      provenance: await read("provenance"),
      openings: await read("openings"),
      measurements: await read("measurements"),
      uses: { checkpoints, optimizer },
    });
    return name;
  }

  it("finds all of them equal", async () => {
    const { verdict, checkpoints } = await operations.replay({ fleet, model: "soh" });
    assert.equal(verdict, "proved");
    assert.deepEqual(checkpoints, { compared: 3, lastEqual: iterationsOf().at(-1) });
  });

  it("refutes a checkpoint with a flipped bit, and names the last equal one before it", async () => {
    const [first, second] = iterationsOf();
    const report = await operations.replay({ fleet, model: await saveLie("second", second!) });
    assert.equal(report.verdict, "refuted");
    assert.deepEqual(report.members, ["record.uses.checkpoints"]);
    assert.deepEqual(report.checkpoints, { compared: 3, lastEqual: first, firstDifferent: second });
    const { checkpoints } = await operations.replay({ fleet, model: await saveLie("first", first!) });
    assert.deepEqual(checkpoints, { compared: 3, firstDifferent: first });
  });

  it("refutes an optimizer's state with a flipped bit", async () => {
    const report = await operations.replay({ fleet, model: await saveLie("state", "optimizer") });
    assert.deepEqual([report.verdict, report.members], ["refuted", ["record.uses.optimizer"]]);
  });
});
