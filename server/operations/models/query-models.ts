/** Answers a query for models (docs/dql.md). */
import type { FoundModel, QueryAnswer } from "../../interface/api/models/query-definitions.js";
import type { OperationInput } from "../../interface/api/server-operations.js";
import { repositorySource } from "../../learning/query/repository-source.js";
import { runQuery } from "../../learning/query/run-query.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import type { VersionRow } from "../../storage/repository/row-keeper.js";

const defaultLimit = 100;

/** @throws QUERY_INVALID, QUERY_TOO_LARGE, MODEL_NOT_FOUND */
export async function queryModels(
  { fleets, home }: OperationsContext,
  { fleet, query, offset = 0, limit = defaultLimit, config, seed, rank }: OperationInput<"runQuery">,
): Promise<QueryAnswer> {
  const source = await repositorySource(await fleets.get(fleet), home.ports.clock, rank);
  const { rows, ...answer } = await runQuery(source, query, { offset, limit, config, seed });
  return { ...answer, rows: rows.map((row) => row.map(foundModel)) };
}

function foundModel({ versionId, name, version, state, tags, recordedAtMs, record }: VersionRow): FoundModel {
  const { device, line, savedAtMs } = record;
  return { versionId, name, version, state, tags, device, line, savedAtMs, recordedAtMs };
}
