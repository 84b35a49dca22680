/** Finds models that were published to a fleet: by text, tag, task, query, or first layers. */
import { defined } from "../../../shared/defined.js";
import { commonPrefix } from "../../../shared/model/common-prefix.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { HubModel } from "../../interface/api/models/bundle-schemas.js";
import type { CallOutput, OperationInput } from "../../interface/api/server-operations.js";
import { requireArchitecture } from "../../services/context/require-architecture.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";

const defaultLimit = 100;
/** Results of a query that are looked at. */
const maxQueryRows = 10_000;

type Search = Omit<OperationInput<"searchHub">, "fleet">;

/** @throws QUERY_INVALID, MODEL_NOT_FOUND and MODEL_OPAQUE for prefixOf */
export async function searchHub(
  context: OperationsContext,
  { fleet, ...search }: OperationInput<"searchHub">,
): Promise<CallOutput<"searchHub">> {
  const repository = await context.fleets.get(fleet);
  const selected = await selectedBy(context, fleet, search.query);
  const models: HubModel[] = [];
  for (const model of listedModels(repository))
    if (isMatch(model, search) && (selected === undefined || selected.has(model.versionId)))
      models.push(model);
  const found =
    search.prefixOf === undefined ? models : await withPrefix(repository, search.prefixOf, models);
  return { models: found.slice(0, search.limit ?? defaultLimit), total: found.length };
}

/** The newest first; not those that were retired since. */
function* listedModels(repository: FleetRepository): Iterable<HubModel> {
  for (const { versionId, license, task, atMs, by } of [...repository.listings()].reverse()) {
    const version = repository.get(versionId);
    if (version === undefined || version.state === "retired") continue;
    const { name, version: number, tags, tensorBytes } = version;
    yield {
      ...{ versionId, name, version: number, tags, listedAtMs: atMs, tensorBytes },
      ...defined({ license, task, by }),
    };
  }
}

function isMatch({ name, license, task, tags }: HubModel, search: Search): boolean {
  const text = search.text?.toLowerCase();
  const has = (value: string | undefined): boolean => value?.toLowerCase().includes(text ?? "") === true;
  return (
    (text === undefined || [name, license, task].some(has)) &&
    (search.tag === undefined || tags.includes(search.tag)) &&
    (search.task === undefined || task === search.task)
  );
}

async function selectedBy(
  context: OperationsContext,
  fleet: string,
  query: string | undefined,
): Promise<ReadonlySet<Hash> | undefined> {
  if (query === undefined) return undefined;
  const { queryModels } = await import("../models/query-models.js");
  const { rows } = await queryModels(context, { fleet, query, limit: maxQueryRows });
  return new Set(rows.flatMap((row) => row.map(({ versionId }) => versionId)));
}

/** The models that begin with the first layers of a model, the longest beginning first. */
async function withPrefix(
  repository: FleetRepository,
  reference: string,
  models: readonly HubModel[],
): Promise<readonly HubModel[]> {
  const architecture = await repository.architecture(requireArchitecture(repository.resolve(reference)));
  const found: (HubModel & { readonly layersInCommon: number })[] = [];
  for (const model of models) {
    const id = repository.get(model.versionId)?.record.objects.architecture;
    if (id === undefined) continue;
    const { layers } = commonPrefix(architecture, await repository.architecture(id));
    if (layers.length > 0) found.push({ ...model, layersInCommon: layers.length });
  }
  return found.sort((a, b) => b.layersInCommon - a.layersInCommon);
}
