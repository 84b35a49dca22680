/** Operations on rollouts. What carries a running one forward is server/fleet/rollout/rollout-runner.ts. */
import { defined } from "../../../shared/defined.js";
import { messageOf } from "../../../shared/error-text.js";
import { isStemmaError, StemmaError } from "../../../shared/errors.js";
import type { FactOf } from "../../../shared/journal/fact.js";
import type { RolloutPolicy } from "../../../shared/journal/facts/rollout-policy.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { releasesOf, revocationOf } from "../../../shared/trust/releases/manifest.js";
import { holdsRight } from "../../interface/api/rights.js";
import type { CallOutput, OperationInput, ServerOperations } from "../../interface/api/server-operations.js";
import type {
  CreatedRolloutAnswer,
  RolloutAnswer,
  RolloutDetailAnswer,
  RolloutPlanAnswer,
} from "../../interface/api/rollouts/rollout-definitions.js";
import type { LiveFleet, OperationsContext } from "../../services/context/operations-context.js";
import { refuseMisspeltLines } from "../../services/context/expected-names.js";
import { refuseOtherShape } from "../../services/context/expected-shape.js";
import { refuseReduced } from "../../learning/evaluation/reduced-models.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { comparisonsOf, isOpen, type RolloutState } from "../../storage/repository/state/rollout-state.js";
import { rolloutExists, versionRetired } from "../../storage/repository/state/state-errors.js";
import { refusingOf, versionOrRelease } from "../models/version-or-release.js";
import { chooseDevices, type ChosenDevices } from "../../fleet/rollout/choose-devices.js";
import { deferredNow, gatesNow, needsOf } from "../../fleet/rollout/ask-devices.js";
import { evidenceOnFleet } from "../../fleet/rollout/evidence.js";
import { standingsOf } from "../../fleet/rollout/family.js";
import { nextWave } from "../../fleet/rollout/next-step.js";
import { leastOf, planTransfers, type PlannedDelivery } from "../../fleet/rollout/plan-transfers.js";
import { policyOf } from "../../fleet/rollout/policy.js";
import { reachesNobody } from "../../fleet/rollout/rollout-errors.js";
import { reportOf } from "../../fleet/rollout/rollout-report.js";
import { spanOf } from "../../fleet/rollout/transfer-times.js";
import { returnsOf, undo } from "../../fleet/rollout/undo.js";
import { whyClosed } from "../../fleet/rollout/windows.js";
import { notApproved, notSignedByOwner, otherLinesRollout } from "./deployment-errors.js";

type RolloutOperations = Pick<
  ServerOperations,
  | "rollouts"
  | "rollout"
  | "rolloutReport"
  | "planRollout"
  | "createRollout"
  | "approveRollout"
  | "setRollout"
  | "undoRollout"
>;

export function rolloutOperations(
  context: OperationsContext,
  { devices }: Pick<ServerOperations, "devices">,
): RolloutOperations {
  const { fleets } = context;
  return {
    rollouts: async ({ fleet }) => {
      const repository = await fleets.get(fleet);
      return [...repository.rollouts()].reverse().map((rollout) => describeRollout(repository, rollout));
    },
    rollout: async (input) => ({
      ...(await showRollout(context, input)),
      ...(input.excluded === true ? { excluded: (await choosableOf(context, devices, input)).excluded } : {}),
    }),
    rolloutReport: async (input) => {
      const repository = await fleets.get(input.fleet);
      const report = reportOf(repository.rollout(input.rollout), (device) => repository.deliveries(device));
      const { excluded } = await choosableOf(context, devices, input);
      return { ...report, excluded };
    },
    planRollout: (input) => planRollout(context, devices, input),
    createRollout: async (input) => {
      refuseKnownName(await fleets.get(input.fleet), input.name);
      if (input.force !== true) await refuseDoubts(context, input);
      return createRollout(context, await planRollout(context, devices, input), input);
    },
    approveRollout: async ({ fleet, rollout, because = "" }) => {
      const repository = await fleets.get(fleet);
      await requireSigned(context, repository, repository.rollout(rollout).versionId);
      const { caller: by } = context;
      await repository.append({
        type: "rollout-approved",
        atMs: nowOf(context),
        rollout,
        because,
        ...defined({ by }),
      });
      return summaryOf(context, fleet, rollout);
    },
    setRollout: (input) => setRollout(context, devices, input),
    undoRollout: (input) => undoRollout(context, input),
  };
}

/** Refuses a taken name before anything else: an open rollout is in its own way. @throws NOT_ALLOWED */
function refuseKnownName(repository: FleetRepository, name: string): void {
  const known = repository.rollouts().find((each) => each.name === name);
  if (known !== undefined) throw rolloutExists(name, known.phase);
}

function nowOf({ home }: OperationsContext): number {
  return home.ports.clock.now();
}

/** True if server.json wants rollouts to be approved by another person. */
async function needsApproval(context: OperationsContext): Promise<boolean> {
  return (await context.rolloutApproval?.()) === true;
}

async function summaryOf({ fleets }: OperationsContext, fleet: string, name: string): Promise<RolloutAnswer> {
  const repository = await fleets.get(fleet);
  return describeRollout(repository, repository.rollout(name));
}

/** Plans which devices a rollout would reach, in which waves, and what that takes. Changes nothing. */
async function planRollout(
  context: OperationsContext,
  devices: ServerOperations["devices"],
  input: OperationInput<"planRollout">,
): Promise<RolloutPlanAnswer> {
  const { fleet, name, line, select } = input;
  const repository = await context.fleets.get(fleet);
  const policy = policyOf({
    ...input.policy,
    ...((await needsApproval(context)) ? { approval: true } : {}),
  });
  const version = releasable(repository, await versionOrRelease(repository, input.model));
  const doubts = await doubtsOf(repository, line, version);
  const selected = await devices({ fleet, select });
  const { candidates, excluded, goingBack, takes } = chooseDevices(
    { name, line, policy, ...superseding(repository, input) },
    selected,
    repository.rollouts(),
    standingsOf(repository, { line, versionId: version.versionId }),
  );
  const waves = plannedWaves(policy, candidates);
  const isJoined = new Set(waves.flat());
  const joined = [...isJoined];
  const known = new Map(selected.map((each) => [each.device, each]));
  const taking = joined.flatMap((device) => known.get(device) ?? []);
  const liveFleet = await context.live?.fleet(fleet);
  const transfers =
    liveFleet &&
    (await expectedTransfers(repository, liveFleet, {
      version,
      line,
      policy,
      waves,
      isOnline: (device) => known.get(device)?.online === true,
    }));
  return {
    name,
    model: titleOf(version),
    versionId: version.versionId,
    line,
    policy,
    waves,
    notReached: candidates.length - joined.length,
    excluded: [...excluded],
    goingBack: goingBack.filter((device) => isJoined.has(device)).length,
    gates: liveFleet === undefined ? [] : [...(await gatesNow(liveFleet, joined, line))],
    deferring: [
      ...taking.flatMap(({ device, labels }) => {
        const because = whyClosed(policy.windows, nowOf(context), labels);
        return because === undefined ? [] : [{ device, because }];
      }),
      ...(liveFleet === undefined ? [] : await deferredNow(liveFleet, joined, needsOf(policy))),
    ],
    takes: takes.filter(({ device }) => isJoined.has(device)),
    noModel: taking.filter(({ active }) => active[line] === undefined).length,
    offline: taking.filter(({ online }) => !online).length,
    refusing: await refusingOf(repository, version.versionId, joined, (device) =>
      liveFleet?.releasePolicyOf(device),
    ),
    ...(doubts.length === 0 ? {} : { doubts: doubts.map(messageOf) }),
    bytes: version.tensorBytes,
    storageBytes: 2 * version.tensorBytes,
    ...transfers,
  };
}

/** Errors that refuse a rollout unless it is forced: its line is probably misspelt, or has models of another shape. */
async function doubtsOf(
  repository: FleetRepository,
  line: string,
  version: VersionSummary,
): Promise<readonly StemmaError[]> {
  const doubts: StemmaError[] = [];
  for (const check of [
    () => Promise.resolve(refuseMisspeltLines(repository, [line])),
    () => refuseOtherShape(repository, line, version),
  ])
    try {
      await check();
    } catch (error) {
      if (!isStemmaError(error)) throw error;
      doubts.push(error);
    }
  return doubts;
}

/** @throws NAME_UNLIKELY, SHAPE_DIFFERENT */
async function refuseDoubts(
  { fleets }: OperationsContext,
  { fleet, line, model }: OperationInput<"createRollout">,
): Promise<void> {
  const repository = await fleets.get(fleet);
  const version = releasable(repository, await versionOrRelease(repository, model));
  const [doubt] = await doubtsOf(repository, line, version);
  if (doubt !== undefined) throw doubt;
}

/** The selected devices that can take part in a rollout now, and those that cannot and are not in it. */
async function choosableOf(
  { fleets }: OperationsContext,
  devices: ServerOperations["devices"],
  { fleet, rollout: name }: OperationInput<"rollout">,
): Promise<Pick<ChosenDevices, "candidates" | "excluded">> {
  const repository = await fleets.get(fleet);
  const rollout = repository.rollout(name);
  const selected = await devices({ fleet, select: rollout.select });
  const standings = standingsOf(repository, rollout);
  const { candidates, excluded } = chooseDevices(rollout, selected, repository.rollouts(), standings);
  return { candidates, excluded: excluded.filter(({ device }) => !rollout.members.has(device)) };
}

/** @throws ROLLOUT_REACHES_NOBODY */
async function refuseUnreached(
  context: OperationsContext,
  devices: ServerOperations["devices"],
  input: OperationInput<"rollout">,
): Promise<void> {
  const { candidates, excluded } = await choosableOf(context, devices, input);
  if (candidates.length === 0) throw reachesNobody(input.rollout, excluded);
}

/** The devices of each wave, as if every wave before it had passed. */
function plannedWaves(
  policy: RolloutPolicy,
  candidates: Parameters<typeof nextWave>[1],
): readonly (readonly string[])[] {
  const joined = new Set<string>();
  return policy.waves.map((_, wave) => {
    const members = new Map([...joined].map((device) => [device, { device, wave, joinedAtMs: 0 }]));
    const next = nextWave({ policy, members, wave }, candidates);
    for (const device of next) joined.add(device);
    return [...next];
  });
}

async function showRollout(
  { fleets, live }: OperationsContext,
  { fleet, rollout: name }: OperationInput<"rollout">,
): Promise<RolloutDetailAnswer> {
  const repository = await fleets.get(fleet);
  const rollout = repository.rollout(name);
  const liveFleet = await live?.fleet(fleet);
  const waitsOf = (device: string): string => {
    if (liveFleet?.isOnline(device) !== true) return "it is not connected";
    return live?.rollouts.waits(fleet, name, device) ?? "its turn comes";
  };
  return {
    ...describeRollout(repository, rollout),
    members: [...rollout.members.values()].map(({ device, wave, joinedAtMs, judged }) =>
      defined({
        device,
        wave,
        joinedAtMs,
        online: liveFleet?.isOnline(device) ?? false,
        verdict: judged?.verdict ?? null,
        because: judged?.because ?? waitsOf(device),
        judgedAtMs: judged?.atMs,
        ...standingOf(repository, rollout, device),
        before: nameOf(repository, judged?.before ?? null),
        compared: judged?.compared,
        trial: judged?.trial,
        live: judged?.live,
      }),
    ),
  };
}

/** Tells whether a device has run the version since it passed, and whether it was given another one since. */
function standingOf(
  repository: FleetRepository,
  rollout: RolloutState,
  device: string,
): Pick<RolloutDetailAnswer["members"][number], "switched" | "givenOther"> {
  const { judged, switched = false } = rollout.members.get(device) ?? {};
  if (judged?.verdict !== "passed") return { switched: false };
  if (!repository.isStillGiven(device, rollout)) return { switched, givenOther: true };
  if (switched || repository.hasSwitched(device, rollout.line, rollout.versionId)) return { switched: true };
  const isServed = repository.device(device)?.state === "enrolled";
  return isServed ? { switched: false } : { switched: false, givenOther: true };
}

/** @throws ROLLOUT_REACHES_NOBODY, NOT_ALLOWED where it starts at once and needs an approval */
async function createRollout(
  context: OperationsContext,
  { versionId, policy, waves, excluded }: RolloutPlanAnswer,
  input: OperationInput<"createRollout">,
): Promise<CreatedRolloutAnswer> {
  const { fleet, name, line, select, start = false } = input;
  const repository = await context.fleets.get(fleet);
  await requireSigned(context, repository, versionId);
  if (start && policy.approval === true) throw notApproved(name);
  if (start) await refuseHeldLine(context, fleet, line);
  if (policy.wait !== true && waves.flat().length === 0) throw reachesNobody(name, excluded);
  const atMs = nowOf(context);
  const takesPlaceOf = superseding(repository, input);
  // In one append: a server that ends meanwhile leaves none that was to start and did not.
  await repository.append(
    {
      type: "rollout",
      atMs,
      rollout: name,
      critical: true,
      line,
      versionId,
      select,
      policy,
      ...takesPlaceOf,
    },
    ...(start
      ? phaseFacts(repository, { atMs, rollout: name, phase: "running", because: "" }, takesPlaceOf)
      : []),
  );
  context.live?.rollouts.wake();
  return { ...(await summaryOf(context, fleet, name)), excluded };
}

/** @throws ROLLOUT_REACHES_NOBODY, NOT_ALLOWED where it starts and needs an approval */
async function setRollout(
  context: OperationsContext,
  devices: ServerOperations["devices"],
  { fleet, rollout, phase, because = "" }: OperationInput<"setRollout">,
): Promise<RolloutAnswer> {
  const repository = await context.fleets.get(fleet);
  const { phase: before, approvedBy, line, policy, versionId, supersedes } = repository.rollout(rollout);
  await requireSigned(context, repository, versionId, { ends: phase !== "running" });
  // A rollout may have been created before server.json asked for approvals.
  const isStart = before === "created" && phase === "running";
  if (isStart && approvedBy === undefined && (await needsApproval(context))) throw notApproved(rollout);
  if (isStart && policy.wait !== true) await refuseUnreached(context, devices, { fleet, rollout });
  if (phase === "running") await refuseHeldLine(context, fleet, line);
  const change = { atMs: nowOf(context), rollout, phase, because };
  await repository.append(...phaseFacts(repository, change, isStart ? defined({ supersedes }) : {}));
  context.live?.rollouts.wake();
  return summaryOf(context, fleet, rollout);
}

async function undoRollout(
  context: OperationsContext,
  { fleet, rollout: name, because = "", dryRun = false }: OperationInput<"undoRollout">,
): Promise<CallOutput<"undoRollout">> {
  const repository = await context.fleets.get(fleet);
  const rollout = repository.rollout(name);
  await requireSigned(context, repository, rollout.versionId, { ends: true });
  const returns = dryRun
    ? returnsOf(repository, rollout)
    : await undo(repository, rollout, { atMs: nowOf(context), because });
  const liveFleet = dryRun ? undefined : await context.live?.fleet(fleet);
  for (const { device } of returns) await liveFleet?.assigned(device);
  return returns.map(({ device, to }) => ({ device, to: nameOf(repository, to) }));
}

/** Leaves a line to the search or evaluation that holds it; that one leaves it to rollouts. @throws TRAINING_REFUSED */
async function refuseHeldLine({ live }: OperationsContext, fleet: string, line: string): Promise<void> {
  (await live?.fleet(fleet))?.lineLeases.require(line, undefined);
}

/**
 * Keeps a caller who may only roll out what the owner signed from every other rollout.
 * @param ends true: one of a release that was revoked since may be ended
 * @throws NOT_ALLOWED
 */
async function requireSigned(
  { grant }: OperationsContext,
  repository: FleetRepository,
  versionId: Hash,
  { ends = false } = {},
): Promise<void> {
  if (holdsRight(grant, "deploy")) return;
  const targets = (await repository.releases())?.published.targets.signed;
  const isRevoked = targets !== undefined && revocationOf(targets, versionId) !== undefined;
  const isReleased = targets !== undefined && releasesOf(targets, versionId).length > 0;
  if (isRevoked ? ends : isReleased) return;
  throw notSignedByOwner(grant?.role ?? "", titleOf(repository.resolve(versionId)), isRevoked, versionId);
}

/** A change of phase; where a rollout starts in the place of another, that one ends in the same append. */
function phaseFacts(
  repository: Pick<FleetRepository, "rollout">,
  change: Omit<FactOf<"rollout-phase">, "type">,
  { supersedes }: { readonly supersedes?: string },
): readonly FactOf<"rollout-phase">[] {
  const ended = supersedes === undefined ? undefined : repository.rollout(supersedes);
  const own = { type: "rollout-phase", ...change } as const;
  if (ended === undefined || !(isOpen(ended) || ended.phase === "done")) return [own];
  const because = `${change.rollout} took its place`;
  return [own, { ...own, rollout: ended.name, phase: "aborted", because }];
}

/** @throws ROLLOUT_UNKNOWN, ROLLOUT_INVALID where it is of another line */
function superseding(
  repository: Pick<FleetRepository, "rollout">,
  { line, supersedes }: Pick<OperationInput<"planRollout">, "line" | "supersedes">,
): { readonly supersedes?: string } {
  if (supersedes === undefined) return {};
  const other = repository.rollout(supersedes);
  if (other.line === line) return { supersedes };
  throw otherLinesRollout(supersedes, other.line, line);
}

interface Expected {
  readonly expected: ReadonlyMap<string, PlannedDelivery>;
  /** Bytes a second to all devices together; null: no limit. */
  readonly sharedRate: number | null;
  readonly isOnline: (device: string) => boolean;
}

/** Predicts what the deliveries of a rollout take: each by itself, and all together. */
async function expectedTransfers(
  repository: FleetRepository,
  liveFleet: LiveFleet,
  {
    version,
    line,
    policy,
    waves,
    isOnline,
  }: {
    readonly version: VersionSummary;
    readonly line: string;
    readonly policy: RolloutPolicy;
    readonly waves: readonly (readonly string[])[];
    readonly isOnline: (device: string) => boolean;
  },
): Promise<Pick<RolloutPlanAnswer, "transfers" | "expectedMs" | "fleetBytesPerSecond">> {
  const { maxBytesPerSecond } = policy;
  const { sendBytesPerSecond } = liveFleet;
  const expected = await planTransfers(repository, liveFleet, {
    summary: version,
    line,
    devices: [...new Set(waves.flat())],
    maxBytesPerSecond,
  });
  const sharedRate = leastOf(maxBytesPerSecond ?? null, sendBytesPerSecond);
  return {
    ...expectations(policy, waves, { expected, sharedRate, isOnline }),
    ...(sendBytesPerSecond === null ? {} : { fleetBytesPerSecond: sendBytesPerSecond }),
  };
}

function expectations(
  { atOnce, soakMinutes }: RolloutPolicy,
  waves: readonly (readonly string[])[],
  { expected, sharedRate, isOnline }: Expected,
): Pick<RolloutPlanAnswer, "transfers" | "expectedMs"> {
  const transfers = waves.flatMap((devices, index) =>
    devices.flatMap((device) => {
      const planned = expected.get(device);
      return planned === undefined ? [] : [{ device, wave: index + 1, ...planned }];
    }),
  );
  const times = waves.map((devices) =>
    devices.filter(isOnline).map((device) => expected.get(device)?.ms ?? null),
  );
  const isKnown = times.flat().length > 0 && times.flat().every((ms) => ms !== null);
  const used = times.filter((wave) => wave.length > 0);
  const sharedMs = (devices: readonly string[]): number => {
    const bytes = devices
      .filter(isOnline)
      .reduce((sum, device) => sum + (expected.get(device)?.bytes ?? 0), 0);
    return sharedRate === null ? 0 : (1000 * bytes) / sharedRate;
  };
  const spanMs = times.reduce(
    (sum, wave, index) => sum + Math.max(spanOf(wave.map(Number), atOnce), sharedMs(waves[index] ?? [])),
    0,
  );
  const soakMs = Math.max(0, used.length - 1) * soakMinutes * 60_000;
  return { transfers, expectedMs: isKnown ? Math.round(spanMs + soakMs) : null };
}

/** @throws MODEL_NOT_FOUND, MODEL_RETIRED, MODEL_REDUCED */
function releasable(repository: FleetRepository, model: string): VersionSummary {
  const summary = repository.resolve(model);
  if (summary.state === "retired") throw versionRetired(summary, "cannot be given to devices");
  refuseReduced(summary, false);
  return summary;
}

function titleOf({ name, version }: Pick<VersionSummary, "name" | "version">): string {
  return `${name}:${version}`;
}

function nameOf(repository: FleetRepository, versionId: Hash | null): string | null {
  if (versionId === null) return null;
  const known = repository.get(versionId);
  return known === undefined ? versionId.slice(0, 12) : titleOf(known);
}

const waitsForDevices = "no device could join yet: it waits for devices that come later";

function describeRollout(repository: FleetRepository, rollout: RolloutState): RolloutAnswer {
  const { name, line, versionId, select, policy, phase, because, phaseAtMs, createdAtMs, by, wave } = rollout;
  const { approvedBy, supersedes } = rollout;
  const members = [...rollout.members.values()];
  const counts = { undecided: 0, passed: 0, switched: 0, kept: 0, worse: 0, failed: 0, left: 0, unknown: 0 };
  let [replaced, missed] = [0, 0];
  for (const { device, judged } of members) {
    counts[judged?.verdict ?? "undecided"]++;
    const { switched, givenOther = false } = standingOf(repository, rollout, device);
    if (switched) counts.switched++;
    if (givenOther && switched) replaced++;
    if (givenOther && !switched) missed++;
  }
  const compared = members.flatMap((member) => comparisonsOf(member).map((each) => each.compared));
  return {
    name,
    line,
    versionId,
    model: nameOf(repository, versionId) ?? "",
    select,
    policy,
    phase,
    because: phase === "running" && policy.wait === true && members.length === 0 ? waitsForDevices : because,
    phaseAtMs,
    createdAtMs,
    ...defined({ createdBy: by, approvedBy, supersedes }),
    wave,
    devices: { ...counts, ...(replaced > 0 ? { replaced } : {}), ...(missed > 0 ? { missed } : {}) },
    evidence: evidenceOnFleet(compared, policy.margin),
  };
}
