/** Operations on named data: list; add, which keeps its hash; check, which reads it again and compares. */
import { StemmaError } from "../../shared/errors.js";
import { isHash } from "../../shared/tensor/hash.js";
import { requireDataset } from "../context/named-data.js";
import { checkDatasetAt } from "../context/check-dataset.js";
import type { ServerOperations } from "../api/server-operations.js";
import type { OperationsContext } from "../context/operations-context.js";

export function datasetOperations(
  context: OperationsContext,
): Pick<ServerOperations, "datasets" | "addDataset" | "checkDataset"> {
  const { fleets, home } = context;
  return {
    datasets: async ({ fleet }) => (await fleets.get(fleet)).datasets(),
    addDataset: async ({ fleet, name, kind, location, parameters = {} }) => {
      const repository = await fleets.get(fleet, { create: true });
      const { hash } = await checkDatasetAt({ kind, location, parameters });
      if (!isHash(hash)) throw new StemmaError("INTERNAL", `The reader ${kind} gave no hash of its samples.`);
      await repository.append({
        type: "data",
        atMs: home.ports.clock.now(),
        name,
        kind,
        location,
        parameters,
        hash,
      });
      return { name, kind, location, parameters, hash };
    },
    checkDataset: async ({ fleet, name }) => {
      const dataset = await requireDataset(context, fleet, name);
      const { samples, hash } = await checkDatasetAt(dataset);
      const ok = dataset.hash === null || dataset.hash === hash;
      return {
        ok,
        samples,
        hash,
        expected: dataset.hash,
        message: ok
          ? `${samples} samples of ${name}, hash ${hash.slice(0, 16)}`
          : `The files of ${name} at ${dataset.location} have changed: their hash is ${hash.slice(0, 16)}, and ${dataset.hash?.slice(0, 16) ?? "-"} was registered. Restore the files to repeat earlier trainings, or register them under a new name with \`stemma data add\`.`,
      };
    },
  };
}
