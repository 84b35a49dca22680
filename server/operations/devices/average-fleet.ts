/**
 * `fleet average`: the average of the newest models of a line on the selected devices. No device is believed: counts
 * are capped, and models that are not finite, of another form, or far from the others are left out, with the reason.
 */
import type { AverageRule } from "../../../shared/average/average-numbers.js";
import { maxAveraged } from "../../../shared/average/average-record.js";
import { cappedWeights } from "../../../shared/average/capped-weights.js";
import { lowerMedian, outliersOf } from "../../../shared/average/outliers.js";
import { defined } from "../../../shared/defined.js";
import type { AverageRecord, LeftOut } from "../../../shared/provenance/provenance.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { FleetAverageReport } from "../../interface/api/models/average-schemas.js";
import type { OperationInput } from "../../interface/api/server-operations.js";
import { openBases } from "../../learning/average/average-bases.js";
import { tooFewDevices, tooManyModels } from "../../learning/average/average-errors.js";
import { countsOf, shown } from "../../learning/average/average-models.js";
import { headsOfLine, ofOneForm, type Choice, type LineHead } from "../../learning/average/line-heads.js";
import { distancesOf, firstTensorNotFinite } from "../../learning/average/measure-models.js";
import { saveAverage } from "../../learning/average/save-average.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { listDevices } from "./device-operations.js";

type AverageInput = OperationInput<"averageFleet">;

const defaultMaxWeight = 3;
const defaultOutliers = 3;
/** Devices that a version's provenance names as left out. */
const maxNamed = 256;

/** Models that are taken, in the order of the sums, with what was measured of each. */
interface Taken {
  readonly heads: readonly LineHead[];
  readonly distances: readonly number[] | undefined;
  readonly medianDistance: number | undefined;
}

/**
 * @throws SELECTION_INVALID; AVERAGE_REFUSED where too few models are left, or too many; ARCHITECTURE_MISMATCH where no
 * architecture is that of more than half; as `saveAverage`
 */
export async function averageFleet(
  context: OperationsContext,
  input: AverageInput,
  signal?: AbortSignal,
): Promise<FleetAverageReport> {
  const { fleet, line, select, name = `${line}-average`, dryRun = false } = input;
  const { weights = "samples", outliers = defaultOutliers } = input;
  const repository = await context.fleets.get(fleet);
  const devices = await listDevices(context, { fleet, select });
  const needed = outliers === 0 ? 2 : 3;
  const fit = await fitHeads(repository, { line, weights, needed }, devices, signal);
  const { leftOut, ...taken } = await withoutOutliers(repository, { line, outliers }, fit, signal);
  const opened = await openBases(
    repository,
    taken.heads.map(({ base }) => base),
    signal,
  );
  const { rule, stated } = weighed(taken.heads, input);
  const sorted = [...leftOut].sort((a, b) => (a.device < b.device ? -1 : 1));
  const chosen = {
    line,
    selection: select,
    weights,
    ...stated,
    ...(outliers === 0 ? {} : { outliers }),
    leftOut: sorted.slice(0, maxNamed),
    leftOutCount: sorted.length,
  } satisfies AverageRecord["chosen"];
  const summary = dryRun
    ? null
    : await saveAverage(context, repository, { name, opened, rule, chosen }, signal);
  return {
    summary,
    ...countsOf(opened, rule),
    taken: taken.heads.map(({ device, base, samples }, i) => ({
      ...shown(base, rule.rule === "weighted" ? rule.weights[i] : undefined),
      device,
      ...defined({ samples, distance: taken.distances?.[i] }),
    })),
    leftOut: sorted,
    ...defined({
      medianSamples: stated.samples && lowerMedian(stated.samples),
      medianDistance: taken.medianDistance,
    }),
    haveCommonAncestor: haveCommonAncestor(repository, taken.heads),
  };
}

/**
 * Finds the models of one form, with finite numbers, and with counts where they are wanted.
 * @throws AVERAGE_REFUSED, ARCHITECTURE_MISMATCH
 */
async function fitHeads(
  repository: FleetRepository,
  { line, weights, needed }: Pick<AverageInput, "line" | "weights"> & { readonly needed: number },
  devices: Parameters<typeof headsOfLine>[2],
  signal: AbortSignal | undefined,
): Promise<Choice> {
  const all = await headsOfLine(repository, line, devices);
  const formed = await ofOneForm(repository, line, all);
  const heads: LineHead[] = [];
  const leftOut: LeftOut[] = [...formed.leftOut];
  const finite = new Set<Hash>();
  for (const head of formed.heads) {
    const because =
      weights === "samples" && head.samples === undefined
        ? "it states no count of samples (--weights equal needs none)"
        : await whyNotFinite(repository, head, finite, signal);
    if (because === undefined) heads.push(head);
    else leftOut.push({ device: head.device, because, versionId: head.base.versionId });
  }
  if (heads.length < needed) throw tooFewDevices(line, heads.length, needed, leftOut);
  if (heads.length > maxAveraged) throw tooManyModels(heads.length, maxAveraged);
  return { heads: inOrder(heads), leftOut };
}

async function whyNotFinite(
  repository: FleetRepository,
  { base }: LineHead,
  finite: Set<Hash>,
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  const path = await firstTensorNotFinite(repository, base, finite, signal);
  return path && `its tensor ${JSON.stringify(path.slice(0, 80))} has numbers that are NaN or infinite`;
}

/** Ascending by version id: the order of the sums. */
function inOrder(heads: readonly LineHead[]): readonly LineHead[] {
  return [...heads].sort((a, b) => (a.base.versionId < b.base.versionId ? -1 : 1));
}

/** @throws AVERAGE_REFUSED where fewer than two are left */
async function withoutOutliers(
  repository: FleetRepository,
  { line, outliers }: { readonly line: string; readonly outliers: number },
  { heads, leftOut }: Choice,
  signal: AbortSignal | undefined,
): Promise<Taken & Pick<Choice, "leftOut">> {
  if (outliers === 0) return { heads, distances: undefined, medianDistance: undefined, leftOut };
  const opened = await openBases(
    repository,
    heads.map(({ base }) => base),
    signal,
  );
  const distances = await distancesOf(opened, signal);
  const { isOutlier, medianDistance } = outliersOf(distances, outliers);
  const isTaken = (_: unknown, i: number): boolean => isOutlier[i] !== true;
  const far = heads.flatMap(({ device, base: { versionId } }, i) =>
    isOutlier[i] === true
      ? {
          device,
          because: `its distance ${figure(distances[i])} from the median is more than ${outliers} times ${figure(medianDistance)}, the median distance`,
          versionId,
        }
      : [],
  );
  const kept = heads.filter(isTaken);
  const all = [...leftOut, ...far];
  if (kept.length < 2) throw tooFewDevices(line, kept.length, 2, all);
  return { heads: kept, distances: distances.filter(isTaken), medianDistance, leftOut: all };
}

function figure(value = 0): string {
  return value.toPrecision(3);
}

/** The rule, with what the devices stated for it. */
function weighed(
  heads: readonly LineHead[],
  { weights = "samples", maxWeight = defaultMaxWeight }: Pick<AverageInput, "weights" | "maxWeight">,
): {
  readonly rule: AverageRule;
  readonly stated: { readonly samples?: readonly number[]; readonly maxWeight?: number };
} {
  if (weights === "equal") return { rule: { rule: "mean" }, stated: {} };
  const samples = heads.map((head) => head.samples ?? 1);
  return {
    rule: { rule: "weighted", weights: cappedWeights(samples, maxWeight) },
    stated: { samples, maxWeight },
  };
}

function haveCommonAncestor(repository: FleetRepository, [first, ...others]: readonly LineHead[]): boolean {
  return (
    first !== undefined &&
    others.every(({ base }) => repository.commonAncestor(first.base.versionId, base.versionId) !== undefined)
  );
}
