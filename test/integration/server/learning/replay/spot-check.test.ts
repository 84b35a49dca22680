/** A spot check of a version whose engine is not here is refused, even where another engine has proved the version. */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "node:test";
import { localOperations } from "../../../../../server/operations/local-operations.js";
import { openFleets } from "../../../../../server/services/context/open-fleets.js";
import { openNodeHome } from "../../../../../server/storage/repository/node-home.js";
import { decodeArchitecture, weightSlots } from "../../../../../shared/model/architecture.js";
import { decodeProvenance, encodeProvenance } from "../../../../../shared/provenance/encode-provenance.js";
import { openProvenance, valueOf } from "../../../../../shared/provenance/openings.js";
import { commitmentName, encodeCommitment } from "../../../../../shared/provenance/state-commitment.js";
import { modelSourceOfTensors } from "../../../../../shared/save/model-source.js";
import { sha256 } from "../../../../../shared/tensor/hash.js";
import { ArraysHash, leafOf, type LeafParts } from "../../../../../shared/train/state-leaf.js";
import { copiedTensors } from "../../../../helpers/copied-tensors.js";
import { refusal } from "../../../../unit/shared/train/engine-runs.js";

const fleet = "cars";

it("no other engine than the one that trained stands in for a spot check", async () => {
  const path = await mkdtemp(join(tmpdir(), "stemma-spot-"));
  const home = await openNodeHome(path);
  const fleets = openFleets(home);
  try {
    const operations = localOperations({ home, fleets, version: "test" });
    const repository = await fleets.get(fleet, { create: true });
    await operations.addDataset({ fleet, name: "cells", kind: "battery-simulated", location: "" });
    const parameters = { epochs: 1, units: 4, patience: 0 };
    await operations.train({ fleet, recipe: "battery-soh", data: "cells", name: "soh", parameters });
    const { versionId, record } = repository.resolve("soh");
    const { architecture, sources, names } = await repository.recover(versionId);
    const tensors = await copiedTensors(sources);
    const weights = new ArraysHash();
    weightSlots(
      decodeArchitecture(await repository.objects.read("architecture", record.objects.architecture!)),
    )
      .map(({ path: name, shape }, at) => ({ name, shape, bytes: tensors[at]!.bytes }))
      .forEach(({ name, shape, bytes }) =>
        weights.add({ name, shape, read: () => new Float32Array(bytes.slice().buffer) }),
      );
    const read = (kind: "provenance" | "openings" | "metadata" | "measurements") =>
      repository.objects.read(kind, record.objects[kind]!);
    const provenance = decodeProvenance(await read("provenance"));
    const openings = await read("openings");
    const course = valueOf(openProvenance(await read("provenance"), openings), "course");
    const steps = Number((course as { readonly iterations: bigint }).iterations);
    const engine = sha256("an engine that is not here");
    const last: LeafParts = {
      position: { epoch: 1, iteration: steps, order: null, best: { epoch: 1, loss: 1 }, streams: {} },
      optimizer: { name: "adam", iterations: steps, shared: {} },
      weights: weights.digest(),
      best: null,
      slots: sha256("slots"),
    };
    const commitment = { engine, everySteps: steps, steps, leaves: [sha256("first"), leafOf(last)], last };
    await repository.save(modelSourceOfTensors(architecture!, tensors, names), {
      name: "other",
      bases: [],
      provenance: encodeProvenance({ ...provenance, engine }),
      openings,
      measurements: await read("measurements"),
      attachments: [{ name: commitmentName, bytes: encodeCommitment(commitment) }],
    });
    const other = repository.resolve("other");
    const check = () => operations.spotCheck({ fleet, model: "other" });
    await assert.rejects(check(), refusal("REPLAY_INCOMPLETE"));
    await repository.append({
      type: "replayed",
      atMs: 1,
      versionId: other.versionId,
      verdict: "proved",
      grade: "bit-exact",
      engineId: provenance.engine!,
      because: "rebased",
    });
    await assert.rejects(check(), refusal("REPLAY_INCOMPLETE"));
    assert.equal(repository.get(other.versionId)?.spotCheck, undefined);
  } finally {
    await fleets.close();
    await home.close();
    await rm(path, { recursive: true, force: true });
  }
});
