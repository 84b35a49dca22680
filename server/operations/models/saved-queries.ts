/** Operations on the queries of a fleet that have names (docs/dql.md). */
import type { CallOutput, ServerOperations } from "../../interface/api/server-operations.js";
import { checkModelsQuery } from "../../learning/query/run-query.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";

type SavedQueryOperations = Pick<ServerOperations, "savedQueries" | "saveQuery" | "deleteQuery">;

export function savedQueryOperations({ fleets }: OperationsContext): SavedQueryOperations {
  return {
    savedQueries: async ({ fleet }) => listOf(await fleets.get(fleet)),
    saveQuery: async ({ fleet, name, query }) => {
      const repository = await fleets.get(fleet);
      const others = repository.savedQueries().map((each) => [each.name, each.text] as const);
      checkModelsQuery(query, new Map([...others, [name, query]]));
      await repository.saveQuery(name, query);
      return listOf(repository);
    },
    deleteQuery: async ({ fleet, name }) => {
      const repository = await fleets.get(fleet);
      await repository.deleteQuery(name);
      return listOf(repository);
    },
  };
}

function listOf(repository: FleetRepository): CallOutput<"savedQueries"> {
  return repository
    .savedQueries()
    .map(({ text, atMs, ...query }) => ({ ...query, query: text, savedAtMs: atMs }));
}
