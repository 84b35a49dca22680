/**
 * Decides whether a version is announced as a claim, without its tensors. It goes with its recipe and data; the tensors
 * stay here until the server has proved it. Only the server's receipt `released` ever lets them go. Pure.
 */
import type { OutboxEntry, OutboxState } from "./outbox-state.js";

/** The way that a line reports the models that it trains. */
export type LineApproach = "parameters" | "provenance";

/** Versions that wait for their proof at a time; more are sent with their tensors. */
const maxClaims = 8;
/** Milliseconds after which a claim that was not proved is sent with its tensors. */
const maxClaimedMs = 3_600_000;

export interface ClaimCircumstances {
  readonly approach: LineApproach;
  /** The disk has no space for another training: what is here has to be released soon. */
  readonly isDiskTight: boolean;
  /** Milliseconds since 1970. */
  readonly nowMs: number;
}

export function isClaimed(
  state: Pick<OutboxState, "entries">,
  entry: OutboxEntry,
  { approach, isDiskTight, nowMs }: ClaimCircumstances,
): boolean {
  if (approach !== "provenance" || isDiskTight || entry.origin !== "trained") return false;
  if (entry.standing === "stored" || entry.standing === "released") return false;
  if (entry.claimedAtMs !== undefined) return nowMs - entry.claimedAtMs < maxClaimedMs;
  const claims = [...state.entries.values()].filter(({ claimedAtMs }) => claimedAtMs !== undefined);
  return claims.length < maxClaims;
}
