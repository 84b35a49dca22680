/**
 * The state of rollouts: which devices of a selection get a version, in which wave, and what came of each. What a
 * rollout does next is decided from it in server/fleet/rollout. Pure.
 */
import { defined } from "../../../../shared/defined.js";
import { byOf, type Caller } from "../../../../shared/journal/caller.js";
import { StemmaError } from "../../../../shared/errors.js";
import type { FactOf } from "../../../../shared/journal/fact.js";
import type { Timed } from "../../../../shared/journal/facts/fact-members.js";
import type {
  ComparedLosses,
  DeviceJudgement,
  DeviceMeasurement,
  PlannedTransfer,
  RolloutFact,
  RolloutPhase,
} from "../../../../shared/journal/facts/rollout-facts.js";
import type { RolloutPolicy } from "../../../../shared/journal/facts/rollout-policy.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { DeviceState } from "./device-state.js";
import { approvalMissing, rolloutExists, rolloutNotSo, rolloutUnknown } from "./state-errors.js";

export interface RolloutMember {
  readonly device: string;
  readonly wave: number;
  readonly joinedAtMs: number;
  readonly planned?: PlannedTransfer;
  /** The measurement before its trial on live inputs. */
  readonly measured?: Timed & DeviceMeasurement;
  readonly judged?: Timed & DeviceJudgement;
  /** True if its line has run the version since it passed (rollout-switches.ts). */
  readonly switched?: boolean;
}

export interface RolloutState {
  readonly name: string;
  readonly line: string;
  readonly versionId: Hash;
  readonly select: string;
  readonly policy: RolloutPolicy;
  readonly createdAtMs: number;
  /** The caller who created it, and by which name of theirs an approval is told from their own. */
  readonly by?: string;
  readonly byWho?: string;
  /** The rollout that it ends when it starts. */
  readonly supersedes?: string;
  /** The caller who approved it; undefined: nobody. */
  approvedBy: string | undefined;
  /** The time when it first ran; undefined: it did not start yet. */
  startedAtMs: number | undefined;
  /** `created` until it starts. */
  phase: "created" | RolloutPhase;
  because: string;
  phaseAtMs: number;
  /** The time when it went on after a pause; what came before is accepted. 0: never. */
  resumedAtMs: number;
  /** The newest wave, from 1; 0: none yet. */
  wave: number;
  waveAtMs: number;
  /** The members in the order in which they joined. */
  readonly members: Map<string, RolloutMember>;
  /** The number of them that were not judged yet. */
  undecided: number;
  /** The number of reported comparisons of losses, each of which spends of the level. */
  comparisons: number;
}

/** The comparisons of a device, and when they were reported: on held-out samples and on live inputs. */
export function comparisonsOf({ measured, judged }: Pick<RolloutMember, "measured" | "judged">): readonly {
  readonly atMs: number;
  readonly compared: ComparedLosses;
}[] {
  const { atMs = 0, compared } = judged ?? measured ?? {};
  return [compared, judged?.live?.compared].flatMap((each) =>
    each === undefined ? [] : [{ atMs, compared: each }],
  );
}

/** Rollouts that still have something to do, or whose devices wait. */
export function isOpen({ phase }: Pick<RolloutState, "phase">): boolean {
  return phase === "created" || phase === "running" || phase === "paused";
}

/** The name that a caller is told from others by: what a client claims does not count. */
function whoOf({ by }: { readonly by?: Caller | string | undefined }): string | undefined {
  return typeof by === "object" ? by.who : by;
}

/** @returns false where it changes nothing */
export function applyRollout(rollouts: Map<string, RolloutState>, fact: RolloutFact): boolean {
  const rollout = rollouts.get(fact.rollout);
  if (fact.type === "rollout") {
    if (rollout !== undefined) return false;
    rollouts.set(fact.rollout, createdBy(fact));
    return true;
  }
  if (rollout === undefined) return false;
  switch (fact.type) {
    case "rollout-approved":
      rollout.approvedBy = byOf(fact).by ?? "";
      return true;
    case "rollout-phase":
      applyPhase(rollout, fact);
      return true;
    case "wave":
      applyWave(rollout, fact);
      return true;
    case "measured":
      return applyMeasured(rollout, fact);
    case "judged":
      return applyJudged(rollout, fact);
    case "switch-failed":
      return applySwitchFailed(rollout, fact);
  }
}

function createdBy(fact: FactOf<"rollout">): RolloutState {
  const { rollout: name, line, versionId, select, policy, atMs, supersedes } = fact;
  const byWho = whoOf(fact);
  return {
    name,
    line,
    versionId,
    select,
    policy,
    createdAtMs: atMs,
    ...byOf(fact),
    ...defined({ byWho, supersedes }),
    approvedBy: undefined,
    startedAtMs: undefined,
    phase: "created",
    because: "",
    phaseAtMs: atMs,
    resumedAtMs: 0,
    wave: 0,
    waveAtMs: atMs,
    members: new Map(),
    undecided: 0,
    comparisons: 0,
  };
}

function applyPhase(rollout: RolloutState, { phase, because, atMs }: FactOf<"rollout-phase">): void {
  if (phase === "running") rollout.startedAtMs ??= atMs;
  if (rollout.phase === "paused" && phase === "running") rollout.resumedAtMs = atMs;
  rollout.phase = phase;
  rollout.because = because;
  rollout.phaseAtMs = atMs;
}

function applyWave(rollout: RolloutState, fact: FactOf<"wave">): void {
  if (fact.wave > rollout.wave) rollout.waveAtMs = fact.atMs;
  rollout.wave = Math.max(rollout.wave, fact.wave);
  for (const [index, device] of fact.devices.entries())
    if (!rollout.members.has(device)) {
      const planned = fact.planned?.[index];
      rollout.members.set(device, {
        device,
        wave: fact.wave,
        joinedAtMs: fact.atMs,
        ...defined({ planned }),
      });
      rollout.undecided++;
    }
}

function applyMeasured(rollout: RolloutState, fact: FactOf<"measured">): boolean {
  const member = rollout.members.get(fact.device);
  if (member === undefined || member.judged !== undefined) return false;
  const { type: _, rollout: __, device: ___, ...measured } = fact;
  rollout.members.set(fact.device, { ...member, measured });
  if (fact.compared !== undefined) rollout.comparisons++;
  return true;
}

function applyJudged(rollout: RolloutState, fact: FactOf<"judged">): boolean {
  const member = rollout.members.get(fact.device);
  if (member === undefined || member.judged !== undefined) return false;
  const { atMs, verdict, before, because, live } = fact;
  const { compared = member.measured?.compared, trial = member.measured?.trial } = fact;
  const judged = {
    atMs,
    verdict,
    before,
    because,
    ...defined({ compared, trial, live }),
  };
  rollout.members.set(fact.device, { ...member, judged });
  rollout.undecided--;
  rollout.comparisons += [fact.compared, live?.compared].filter((each) => each !== undefined).length;
  return true;
}

function applySwitchFailed(rollout: RolloutState, fact: FactOf<"switch-failed">): boolean {
  const member = rollout.members.get(fact.device);
  if (member?.judged?.verdict !== "passed") return false;
  const { atMs, because } = fact;
  rollout.members.set(fact.device, {
    ...member,
    judged: { ...member.judged, atMs, verdict: "failed", because },
  });
  return true;
}

/** Pauses restored rollouts: decisions after the backup are lost, so a person has to say that a rollout goes on. */
export function pauseRestored(rollouts: ReadonlyMap<string, RolloutState>, atMs: number): void {
  for (const rollout of rollouts.values())
    if (rollout.phase === "running" || (rollout.phase === "done" && rollout.undecided > 0)) {
      rollout.phase = "paused";
      rollout.because = "the fleet was restored from a backup";
      rollout.phaseAtMs = atMs;
    }
}

const nextPhases: Readonly<Record<RolloutState["phase"], readonly RolloutPhase[]>> = {
  created: ["running", "aborted"],
  running: ["paused", "aborted", "undone", "done"],
  paused: ["running", "aborted", "undone"],
  aborted: ["undone"],
  done: ["aborted", "undone"],
  undone: [],
};

export function requireRollout(rollouts: ReadonlyMap<string, RolloutState>, name: string): RolloutState {
  const rollout = rollouts.get(name);
  if (rollout !== undefined) return rollout;
  throw rolloutUnknown(name);
}

/** The rollouts with another one, which the same append creates. */
export function withCreated(
  rollouts: ReadonlyMap<string, RolloutState>,
  fact: FactOf<"rollout">,
): Map<string, RolloutState> {
  return new Map(rollouts).set(fact.rollout, createdBy(fact));
}

/**
 * Requires that a fact about a rollout may follow.
 * @throws ROLLOUT_UNKNOWN, NOT_ALLOWED
 */
export function checkRollout(rollouts: ReadonlyMap<string, RolloutState>, fact: RolloutFact): void {
  if (fact.type === "rollout") {
    const known = rollouts.get(fact.rollout);
    if (known !== undefined) throw rolloutExists(known.name, known.phase);
    return;
  }
  const rollout = requireRollout(rollouts, fact.rollout);
  const { name, phase, members } = rollout;
  if (fact.type === "rollout-approved") {
    checkApproval(rollout, fact);
    return;
  }
  if (fact.type === "rollout-phase") {
    if (!nextPhases[phase].includes(fact.phase))
      throw rolloutNotSo(name, phase, `so it cannot become ${fact.phase}`);
    if (fact.phase === "running" && rollout.policy.approval === true && rollout.approvedBy === undefined)
      throw approvalMissing(name, phase);
    return;
  }
  const isRunning = phase === "running" || (phase === "done" && fact.type !== "wave");
  const isKnown =
    fact.type === "wave" ||
    members.get(fact.device)?.judged?.verdict === (fact.type === "switch-failed" ? "passed" : undefined);
  if (!isRunning || !isKnown) throw rolloutNotSo(name, phase, "or was changed meanwhile");
}

/** @throws NOT_ALLOWED */
function checkApproval(rollout: RolloutState, fact: FactOf<"rollout-approved">): void {
  const { name, phase, byWho } = rollout;
  const who = whoOf(fact);
  const problem =
    phase !== "created"
      ? `it is ${phase}`
      : who === undefined || byWho === undefined
        ? "it is not known who created it, or who approves it"
        : who === byWho
          ? `${who} created it; another person has to approve it, with a token of their own`
          : undefined;
  if (problem === undefined) return;
  throw new StemmaError("NOT_ALLOWED", `The rollout ${name} cannot be approved: ${problem}.`, {
    rollout: name,
  });
}

function priorityOf({ policy }: Pick<RolloutState, "policy">): number {
  return policy.priority ?? 0;
}

/** True if an open rollout has still to decide on a device. */
function decides(rollout: RolloutState, device: string): boolean {
  return isOpen(rollout) && rollout.members.has(device) && rollout.members.get(device)?.judged === undefined;
}

/** True if a rollout goes before a newer one of the line for a device that is in both. */
function goesBefore(older: RolloutState, newer: RolloutState, device: string): boolean {
  return decides(older, device) && (!decides(newer, device) || priorityOf(older) > priorityOf(newer));
}

/** The open rollout of the line that has to decide on the device first; undefined: none, it is this one's turn. */
export function firstBefore(
  rollouts: Iterable<RolloutState>,
  rollout: RolloutState,
  device: string,
): RolloutState | undefined {
  for (const other of rollouts)
    if (
      other.name !== rollout.name &&
      other.line === rollout.line &&
      priorityOf(other) > priorityOf(rollout) &&
      decides(other, device)
    )
      return other;
  return undefined;
}

/** A version that a rollout gives a device to fetch and keep. */
export interface StagedVersion {
  readonly line: string;
  readonly versionId: Hash;
  readonly rollout: string;
  /** The limit for all devices of the rollout together; absent: no limit. */
  readonly maxBytesPerSecond?: number;
}

/** Yields the versions that the device is to fetch and keep, beside what its lines run. */
export function* stagedFor(
  rollouts: ReadonlyMap<string, RolloutState>,
  device: string,
): Iterable<StagedVersion> {
  const deciding = new Map<string, RolloutState>();
  for (const rollout of [...rollouts.values()].reverse()) {
    if (!rollout.members.has(device)) continue;
    const other = deciding.get(rollout.line);
    if (other === undefined || goesBefore(rollout, other, device)) deciding.set(rollout.line, rollout);
  }
  for (const { name: rollout, phase, members, line, versionId, policy } of deciding.values()) {
    const { maxBytesPerSecond } = policy;
    if ((phase === "running" || phase === "done") && members.get(device)?.judged === undefined)
      yield {
        line,
        versionId,
        rollout,
        ...defined({ maxBytesPerSecond }),
      };
  }
}

/**
 * Devices that were silent until the rollout had ended: they are asked when they are back, unless a later rollout of
 * the line took them.
 */
export function lateMembers(
  rollouts: Iterable<RolloutState>,
  { name, line, phase, members, undecided }: RolloutState,
): readonly string[] {
  if (phase !== "done" || undecided === 0) return [];
  const all = [...rollouts];
  const later = all
    .slice(all.findIndex((rollout) => rollout.name === name) + 1)
    .filter((rollout) => rollout.line === line);
  return [...members.values()]
    .filter(({ device, judged }) => judged === undefined && !later.some((one) => one.members.has(device)))
    .map(({ device }) => device);
}

/**
 * The versions that rollouts need, each with a description of the use: what an open one gives to devices, and what the
 * last one of each line gives back to them.
 */
export function* versionsOfRollouts(
  rollouts: ReadonlyMap<string, RolloutState>,
  devices: ReadonlyMap<string, DeviceState>,
): Iterable<readonly [Hash, string]> {
  const lastBefore = new Map<string, readonly [Hash, string]>();
  for (const rollout of rollouts.values()) {
    const { name, line, versionId, members, phase } = rollout;
    const isAwaited = lateMembers(rollouts.values(), rollout).some(
      (device) => devices.get(device)?.status !== "revoked",
    );
    if (isOpen(rollout) || isAwaited) yield [versionId, `given to devices by the rollout ${name}`];
    for (const { device, judged } of members.values()) {
      const key = `${device}/${line}`;
      if (judged?.verdict !== "passed") continue;
      lastBefore.delete(key);
      const isGone = devices.get(device)?.status === "revoked";
      if (phase !== "undone" && !isGone && judged.before !== null)
        lastBefore.set(key, [judged.before, `what ${key} returns to if the rollout ${name} is undone`]);
    }
  }
  yield* lastBefore.values();
}
