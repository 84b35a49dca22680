/** Holds: their description, and which versions may be held. Pure. */
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { versionHeld, versionRetired } from "./state-errors.js";

export interface Hold {
  readonly atMs: number;
  readonly because: string;
  readonly by?: string;
}

/** Describes a hold, for example "by ann@workshop since 2026-11-21 09:30Z: incident 7". */
export function describeHold({ atMs, because, by }: Hold): string {
  return `${by === undefined ? "" : `by ${by} `}since ${new Date(atMs).toISOString().slice(0, 16).replace("T", " ")}Z${because === "" ? "" : `: ${because}`}`;
}

/** Checks that a version can be held. A hold never replaces another one. @throws MODEL_RETIRED, MODEL_HELD */
export function checkHoldable(version: {
  readonly versionId: Hash;
  readonly name: string;
  readonly version: number;
  readonly hold?: Hold | undefined;
  readonly retired?: { readonly because: string } | undefined;
}): void {
  if (version.retired !== undefined) throw versionRetired(version, "cannot be held");
  if (version.hold !== undefined)
    throw versionHeld(version, describeHold(version.hold), "cannot be held again");
}
