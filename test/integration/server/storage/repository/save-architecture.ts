/** Models of an architecture, with weights that a name decides. */
import type { ModelMetadata } from "../../../../../shared/model/metadata.js";
import type { Architecture } from "../../../../../shared/model/model.js";
import { weightSlots } from "../../../../../shared/model/architecture.js";
import { modelSourceOfTensors } from "../../../../../shared/save/model-source.js";
import type { Hash } from "../../../../../shared/tensor/tensor.js";
import type { FleetRepository } from "../../../../../server/storage/repository/fleet-repository.js";
import { seededBytes } from "./harness.js";

export async function saveArchitecture(
  repository: FleetRepository,
  architecture: Architecture,
  seed: string,
  metadata?: ModelMetadata,
): Promise<Hash> {
  const tensors = weightSlots(architecture).map(({ dtype, shape }, i) => ({
    dtype,
    shape,
    bytes: seededBytes(`${seed}/${i}`, 4 * shape.reduce((product, extent) => product * extent, 1)),
  }));
  const { summary } = await repository.save(modelSourceOfTensors(architecture, tensors), {
    name: seed,
    ...(metadata === undefined ? {} : { metadata }),
  });
  return summary.versionId;
}
