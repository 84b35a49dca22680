/** The model with the longest common prefix, while models are saved, retired and opened again. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { commonPrefix } from "../../../../shared/model/common-prefix.js";
import type { Architecture } from "../../../../shared/model/model.js";
import { weightSlots } from "../../../../shared/model/architecture.js";
import { modelSourceOfTensors } from "../../../../shared/save/model-source.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { FleetRepository } from "../../../../server/repository/fleet-repository.js";
import {
  candidateArchitecture,
  randomNumbers,
  savable,
  searchedChoices,
} from "../../../helpers/random-architectures.js";
import { memoryHome, modelOf, openRepository, seededBytes, tensorsOf } from "./harness.js";

async function saveOf(repository: FleetRepository, architecture: Architecture, seed: string): Promise<Hash> {
  const tensors = weightSlots(architecture).map(({ dtype, shape }, i) => ({
    dtype,
    shape,
    bytes: seededBytes(`${seed}/${i}`, 4 * shape.reduce((product, extent) => product * extent, 1)),
  }));
  const { summary } = await repository.save(modelSourceOfTensors(architecture, tensors), { name: seed });
  return summary.versionId;
}

test("is that of Algorithm 1 on all models, at every moment", async () => {
  const { home, ports } = await memoryHome();
  let repository = await openRepository(home, "fleet-a");
  await repository.save(modelOf(tensorsOf("m")), { name: "opaque" });
  const random = randomNumbers(7);
  const candidates = searchedChoices(30, random).map(candidateArchitecture).map(savable);
  const live: { readonly id: Hash; readonly architecture: Architecture }[] = [];
  for (const [i, architecture] of candidates.entries()) {
    const asked = await repository.nearest(architecture);
    assert.equal(asked.indexed, live.length);
    const layers = live.map((model) => commonPrefix(architecture, model.architecture).layers.length);
    const most = Math.max(0, ...layers);
    // Models are saved one after the other, so of equal ones the last is the newest.
    assert.equal(asked.nearest?.versionId, most === 0 ? undefined : live[layers.lastIndexOf(most)]?.id);
    assert.equal(asked.nearest?.layers ?? 0, most);
    ports.clock.advance(1000);
    const id = await saveOf(repository, architecture, `m${i}`);
    live.push({ id, architecture });
    assert.equal((await repository.nearest(architecture)).nearest?.versionId, id);
    assert.notEqual((await repository.nearest(architecture, id)).nearest?.versionId, id);
    if (i % 3 === 2) {
      const [retired] = live.splice(random(live.length), 1);
      await repository.retire(retired!.id, "not needed");
    }
    if (i % 10 === 9) {
      await repository.close();
      repository = await openRepository(home, "fleet-a");
    }
  }
  await repository.close();
});
