/**
 * Derives models from the versions that a query finds (MH, section III-B: slice and construct): for each its network
 * and the weights that it inherits, or the reason why there is no such model.
 */
import { isStemmaError, type ErrorCode } from "../../../../shared/errors.js";
import { weightSlots } from "../../../../shared/model/architecture.js";
import type { Architecture } from "../../../../shared/model/model.js";
import { tensorByteLength } from "../../../../shared/tensor/dtype.js";
import { checkName } from "../../../storage/repository/state/naming.js";
import type { VersionRow } from "../../../storage/repository/row-keeper.js";
import { networkOf } from "../network.js";
import type { Run } from "../query-run.js";
import { queryTooLarge } from "../query-errors.js";
import type { StoredNetwork } from "../query-source.js";
import type { CompiledDerivation } from "./compile-derivation.js";
import { derivedNetwork, type DerivedNetwork } from "./derived-network.js";
import { notDerivable } from "./draft.js";
import { drawerOf, type DrawWeight } from "./initial-weights.js";

/** Versions that one query derives models from. */
const maxDerived = 100;
const maxDrawnBytes = 256 * 1024 * 1024;

/** A derived model before its weights are drawn. */
export interface DerivedModel extends DerivedNetwork {
  readonly leafNames: readonly string[];
  readonly frozenLayers: readonly number[];
  /** The way in which each weight is drawn, in canonical order; undefined: it is inherited. */
  readonly drawers: readonly (DrawWeight | undefined)[];
  /** Names of layers that are new, and of those of the source that it has not. */
  readonly added: readonly string[];
  readonly removed: readonly string[];
  readonly extraInputs: ReadonlySet<string>;
  readonly inheritedBytes: number;
  readonly drawnBytes: number;
}

/** The model of one version, or the reason why there is none. */
export interface Derivation {
  readonly row: VersionRow;
  readonly name: string;
  readonly result: DerivedModel | { readonly reason: string };
}

/** @param rows the versions, oldest first. @throws QUERY_TOO_LARGE */
export async function deriveModels(
  rows: readonly VersionRow[],
  { change, derived }: CompiledDerivation,
  run: Run,
): Promise<readonly Derivation[]> {
  if (rows.length > maxDerived)
    throw queryTooLarge(
      `would derive from ${rows.length} versions, more than ${maxDerived}`,
      "Give it conditions that select fewer, such as a name and a number.",
    );
  /** Versions of one network have one result. */
  const known = new Map<string, Derivation["result"]>();
  const derivations: Derivation[] = [];
  for (const row of rows) {
    const key = `${row.network ?? row.versionId}${row.record.scheme ?? ""}`;
    const result = known.get(key) ?? (await deriveFrom(row, change, run));
    known.set(key, result);
    const name = `${row.name}-${derived}`;
    derivations.push({ row, name, result: "reason" in result ? result : (refusedName(name) ?? result) });
    await run.budget.pause();
  }
  return derivations;
}

function refusedName(name: string): { readonly reason: string } | undefined {
  try {
    checkName("model", name);
    return undefined;
  } catch (error) {
    return { reason: (error as Error).message };
  }
}

/** The codes of what is wrong with one version or its model, and not with the query. */
const ofOneModel: ReadonlySet<string> = new Set<ErrorCode>([
  ...(["ARCHITECTURE_INVALID", "LAYER_NOT_ALLOWED", "CANONICAL_JSON_INVALID", "NAMES_INVALID"] as const),
  ...(["TENSOR_SIZE_MISMATCH", "SHAPE_INVALID", "OBJECT_MISSING", "OBJECT_HASH_MISMATCH"] as const),
]);

async function deriveFrom(
  row: VersionRow,
  change: CompiledDerivation["change"],
  run: Run,
): Promise<Derivation["result"]> {
  try {
    if (row.record.scheme !== undefined)
      throw notDerivable(`it is reduced (${row.record.scheme}); derive from the exact model`);
    const stored = await run.source.storedNetwork(row);
    if (stored === undefined) throw notDerivable("its network is not known");
    return derivedModel(stored, change, run);
  } catch (error) {
    if (!isStemmaError(error) || !ofOneModel.has(error.code)) throw error;
    return { reason: error.message };
  }
}

function derivedModel(
  { architecture, names }: StoredNetwork,
  change: CompiledDerivation["change"],
  run: Run,
): DerivedModel {
  const network = networkOf(architecture, names.layers);
  const source = { architecture, network, names: network.layers.map(({ name }) => name) };
  const draft = change(source, run.work);
  const model = derivedNetwork(draft, source);
  const origins = new Set(model.origins);
  const frozen = new Set(names.frozenLayers ?? []);
  return {
    ...model,
    ...weightsOf(model, { architecture, names }),
    frozenLayers: model.origins.flatMap((origin, at) =>
      origin !== undefined && frozen.has(origin) ? [at] : [],
    ),
    added: model.names.filter((_, at) => model.origins[at] === undefined),
    removed: source.names.filter((_, at) => !origins.has(at)),
    extraInputs: draft.extraInputs,
  };
}

type Weights = Pick<DerivedModel, "leafNames" | "drawers" | "inheritedBytes" | "drawnBytes">;

function weightsOf({ architecture, names, inherited }: DerivedNetwork, source: StoredNetwork): Weights {
  const sourceNames = new Map(
    weightSlots(source.architecture).map(({ path }, leaf) => [path, source.names.leaves[leaf] ?? path]),
  );
  const weights = { leafNames: [] as string[], drawers: [] as (DrawWeight | undefined)[] };
  let [inheritedBytes, drawnBytes] = [0, 0];
  for (const [leaf, slot] of weightSlots(architecture).entries()) {
    const from = inherited[leaf];
    const layerName = names[slot.layer] ?? "";
    const bytes = tensorByteLength(slot.dtype, slot.shape);
    if (from === undefined) drawnBytes += bytes;
    else inheritedBytes += bytes;
    const layer = architecture.layers[slot.layer] as Architecture["layers"][number];
    weights.drawers.push(from === undefined ? drawerOf(layer, slot, layerName) : undefined);
    weights.leafNames.push((from && sourceNames.get(from)) ?? `${layerName}/${slot.name}`);
  }
  if (drawnBytes > maxDrawnBytes)
    throw notDerivable(`${drawnBytes} bytes of weights would be drawn, more than ${maxDrawnBytes}`);
  if (new Set(weights.leafNames).size < weights.leafNames.length)
    throw notDerivable("two of its weights would have one name");
  return { ...weights, inheritedBytes, drawnBytes };
}
