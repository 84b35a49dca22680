/** A fleet of related models in a home in memory, for tests that apply plans. */
import { openRepository } from "../../../../server/repository/open-repository.js";
import type { FleetRepository } from "../../../../server/repository/fleet-repository.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { saveModels, testFleetModels } from "../../../helpers/archive-fleet.js";
import type { ManualClock } from "../../../helpers/manual-clock.js";
import { memoryHome } from "../repository/harness.js";

export async function memoryFleet(models = testFleetModels()): Promise<{
  readonly repository: FleetRepository;
  readonly ids: ReadonlyMap<string, Hash>;
  readonly models: typeof models;
  readonly clock: ManualClock;
}> {
  const {
    home,
    ports: { clock },
  } = await memoryHome();
  const repository = await openRepository(home, "fleet-a");
  return { repository, ids: await saveModels(repository, models), models, clock };
}
export function tensorsOf(repository: FleetRepository): readonly Hash[] {
  return [...repository.objects.list()].filter(({ kind }) => kind === "tensor").map(({ id }) => id);
}
