/** Claims in a fleet's state: versions of which a device has reported how they were made. Pure. */
import { defined } from "../../../../shared/defined.js";
import { byOf } from "../../../../shared/journal/caller.js";
import type { FactOf } from "../../../../shared/journal/fact.js";
import type { MeasuredReplay } from "../../../../shared/journal/facts/version-facts.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { EndedClaim, FormerClaim } from "../claim.js";
import type { Replayed } from "../answers/version-answers.js";

/** A version whose tensors a replay has yet to give, or its device to send. */
export interface ClaimState {
  readonly versionId: Hash;
  readonly name: string;
  /** Journal position of the fact that states the claim. */
  readonly position: number;
  readonly recordedAtMs: number;
  readonly tensorBytes: number;
  /** Bytes that were stored with it; absent where that is not known. */
  readonly storedBytes?: number;
  /** The generation of the device that sent everything but the tensors. */
  readonly generation: number;
  /** Set in the moment before the version is recorded. */
  proved?: Replayed;
  /** The end of its replay without a proof: the device is asked for the tensors. */
  ended?: EndedClaim;
}

/** The part of a fleet's state that claims change. */
interface ClaimingState {
  readonly versions: { readonly has: (versionId: Hash) => boolean };
  readonly claims: Map<Hash, ClaimState>;
  ignoredFacts: number;
}

export function applyClaimed(state: ClaimingState, position: number, fact: FactOf<"recorded">): void {
  const { versionId, name, atMs, tensorBytes = 0, storedBytes, generation } = fact;
  if (state.versions.has(versionId) || state.claims.has(versionId) || generation === undefined) {
    state.ignoredFacts++;
    return;
  }
  state.claims.set(versionId, {
    ...{ versionId, name, position, recordedAtMs: atMs, tensorBytes, generation },
    ...defined({ storedBytes }),
  });
}

export function applyToClaim(
  state: ClaimingState,
  fact: FactOf<"proved" | "refuted" | "unreplayable">,
): void {
  const claim = state.claims.get(fact.versionId);
  if (claim === undefined) {
    state.ignoredFacts++;
    return;
  }
  const { type, atMs, because } = fact;
  if (type === "unreplayable") claim.ended = { verdict: type, atMs, because, ...byOf(fact) };
  else {
    const { grade, engineId } = fact;
    if (type === "refuted") claim.ended = { verdict: type, atMs, because, grade, engineId, ...byOf(fact) };
    else claim.proved = { verdict: type, atMs, because, grade, engineId, ...byOf(fact), ...measuredOf(fact) };
  }
}

export function formerClaim({ recordedAtMs, position, ended, proved }: ClaimState): FormerClaim {
  return {
    recordedAtMs,
    position,
    isProved: proved !== undefined,
    ...defined({ ended }),
  };
}

/** The members that facts of earlier releases do not have. */
export function measuredOf({ workMs, dataFrom, description }: MeasuredReplay): MeasuredReplay {
  return defined({ workMs, dataFrom, description });
}
