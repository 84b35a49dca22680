/** Plans which tensors are dropped: one plan, which a dry run shows and a drop carries out. */
import { formatBytes } from "../../../shared/cli/output.js";
import { messageOf } from "../../../shared/error-text.js";
import { isStemmaError } from "../../../shared/errors.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { DropReport } from "../../interface/api/stores/drop-schemas.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { pays, type DropGain } from "../../storage/repository/retention/drop-gains.js";
import { planDrops } from "../../storage/repository/retention/drop-plan.js";
import type { DropCandidate } from "../../storage/repository/versions/drop-version.js";
import { findReplayInputs, type ReplayInputs } from "./drop-inputs.js";

export type Kept = DropReport["kept"][number];

export interface DropTask {
  readonly context: OperationsContext;
  readonly repository: FleetRepository;
  readonly fleet: string;
  readonly maxMs: number;
  readonly because: string;
  readonly busy: (() => ReadonlyMap<Hash, string>) | undefined;
  readonly signal: AbortSignal | undefined;
}

interface PayingDrops {
  readonly drop: readonly {
    readonly version: DropCandidate;
    readonly recoveryMs: number;
    readonly gain: DropGain;
  }[];
  readonly keep: readonly Kept[];
  /** Versions that no replay here has proved yet: trainings that were never measured take what is predicted. */
  readonly unproved: ReadonlySet<Hash>;
}

/**
 * Plans the drops within the bound of every recovery, without those that free less than has to be kept for them.
 */
export async function planPayingDrops(
  task: DropTask,
  isAsked: (version: DropCandidate) => boolean,
  { unknownMs }: { readonly unknownMs?: number } = {},
): Promise<PayingDrops> {
  const { repository, maxMs } = task;
  const { candidates, needs, lacking, unproved } = await candidatesOf(task, isAsked, unknownMs);
  /** Versions whose drop does not pay, with the reason. Each that stays can only make others pay less. */
  const unpaid = new Map<Hash, string>();
  for (;;) {
    const { drop, keep } = planDrops(
      candidates,
      (version) => isAsked(version) && !unpaid.has(version.versionId),
      maxMs,
    );
    const gains = await repository.weighDrops(
      new Map(
        drop.map(({ version: { versionId } }) => [versionId, needs.get(versionId) as ReplayInputs["needs"]]),
      ),
    );
    const gained = drop.flatMap(({ version, recoveryMs }) => {
      const gain = gains.get(version.versionId);
      return gain === undefined ? [] : { version, recoveryMs, gain };
    });
    const losing = gained.filter(({ gain }) => !pays(gain));
    for (const { version, gain } of losing) unpaid.set(version.versionId, whyUnpaid(gain));
    if (losing.length > 0) continue;
    const notPaying = candidates.flatMap((version) => {
      const because = unpaid.get(version.versionId);
      return because === undefined ? [] : keptBecause(version, because);
    });
    return {
      drop: gained,
      keep: [
        ...keep.map(({ version, because }) => {
          const { stays, versionId } = version;
          return { ...keptBecause(version, because), isFit: stays === undefined || lacking.has(versionId) };
        }),
        ...notPaying,
      ],
      unproved,
    };
  }
}

function whyUnpaid({ freedBytes, keptBytes }: DropGain): string {
  return (
    `that would free ${formatBytes(freedBytes)}, and its replay needs ${formatBytes(keptBytes)} that nothing else ` +
    "needs: its engine, data, story and proof"
  );
}

interface Candidates {
  readonly candidates: readonly DropCandidate[];
  readonly needs: ReadonlyMap<Hash, ReplayInputs["needs"]>;
  /** Versions that lack something for a replay, which a person can store. */
  readonly lacking: ReadonlySet<Hash>;
  readonly unproved: ReadonlySet<Hash>;
}

/** All kept versions, those that are asked for with what their replays need and are predicted to take. */
async function candidatesOf(
  task: DropTask,
  isAsked: (version: DropCandidate) => boolean,
  unknownMs: number | undefined,
): Promise<Candidates> {
  const { repository, busy } = task;
  const candidates: DropCandidate[] = [];
  const needs = new Map<Hash, ReplayInputs["needs"]>();
  const lacking = new Set<Hash>();
  const unproved = new Set<Hash>();
  for (const candidate of repository.dropCandidates(busy)) {
    const isOpen = isAsked(candidate) && !candidate.isDropped && candidate.stays === undefined;
    const inputs = isOpen ? await inputsOf(task, candidate) : undefined;
    if (inputs === undefined) candidates.push(candidate);
    else if (typeof inputs === "string") {
      candidates.push({ ...candidate, stays: inputs });
      lacking.add(candidate.versionId);
    } else {
      if (candidate.replayMs === undefined) unproved.add(candidate.versionId);
      candidates.push({ ...candidate, replayMs: candidate.replayMs ?? inputs.predictedMs ?? unknownMs });
      needs.set(candidate.versionId, inputs.needs);
    }
  }
  return { candidates, needs, lacking, unproved };
}

export async function inputsOf(
  { repository }: DropTask,
  { versionId }: DropCandidate,
): Promise<ReplayInputs | string> {
  const summary = repository.get(versionId);
  if (summary === undefined) return "it is gone";
  try {
    return await findReplayInputs(repository, summary);
  } catch (error) {
    if (!isStemmaError(error)) throw error;
    return messageOf(error);
  }
}

export function keptBecause(
  { versionId, stays, state: { name, version } }: DropCandidate,
  because: string,
): Kept {
  return { versionId, name, version, because, isFit: stays === undefined };
}
