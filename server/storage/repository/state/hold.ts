/** Holds: their description, and which versions may be held. Pure. */
import { StemmaError } from "../../../../shared/errors.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";

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
  const name = `${version.name}:${version.version}`;
  const { versionId } = version;
  if (version.retired !== undefined)
    throw new StemmaError(
      "MODEL_RETIRED",
      `${name} is retired (${version.retired.because}), so there is nothing left to hold. Choose another version.`,
      { versionId },
    );
  if (version.hold !== undefined)
    throw new StemmaError(
      "MODEL_HELD",
      `${name} is held already, ${describeHold(version.hold)}. That hold stays; to replace it, remove it first: stemma model unhold ${name} --because TEXT.`,
      { versionId },
    );
}
