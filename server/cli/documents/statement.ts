/** Statements of a document about a version, each with how it is known. Pure. */
import { memberAt, nameOfMember } from "../../../shared/provenance/story-members.js";
import type { MemberProof } from "../../interface/api/fields.js";
import { isProvedMember } from "../proof-text.js";

/**
 * - `proved`: the replay that proved the version made or used the very same.
 * - `recorded`: in the version's record or the journal; nothing made it again.
 * - `stated`: somebody said it, and no replay can tell whether it is so.
 * - `redacted`: recorded, and not to be read any more.
 * - `not recorded`: nobody recorded it.
 */
export type Basis = "proved" | "recorded" | "stated" | "redacted" | "not recorded";

export interface Statement {
  readonly name: string;
  /** The name that a person, program or file gave to what it is of, such as a parameter's; absent: it has none. */
  readonly of?: string;
  /** Null where it is redacted or not recorded. */
  readonly value: string | null;
  readonly basis: Basis;
  /** The reason why it may not be so any more. */
  readonly stale?: string;
}

/** @param value undefined: not recorded */
export function statement(
  name: string,
  value: string | number | undefined,
  basis: Basis = "recorded",
  more: Pick<Statement, "of" | "stale"> = {},
): Statement {
  return value === undefined
    ? { name, value: null, basis: "not recorded" }
    : { name, ...more, value: String(value), basis };
}

export type Members = Readonly<Record<string, unknown>>;

export function membersOf(value: unknown): Members {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Members) : {};
}

export function isRedacted(value: unknown): boolean {
  return typeof membersOf(value)["redacted"] === "string";
}

/** The provenance of format 1; undefined where there is none, or one of another form with members of its own. */
export function knownProvenance(provenance: unknown): unknown {
  return membersOf(provenance)["format"] === 1 ? provenance : undefined;
}

/** A recorded value as text: texts as they are, all else as JSON. */
export function textOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** Tells how the members of one version's story are known. */
export class KnownStory {
  /** @param isTrained false where no engine of Stemma made it: its figures are what somebody wrote */
  constructor(
    private readonly proof: MemberProof | undefined,
    private readonly isTrained: boolean,
  ) {}

  /** @param path in the story, as in the table of its members (shared/provenance/story-members.ts) */
  basisOf(path: readonly string[]): Basis {
    const row = memberAt(path);
    if (row === undefined) return this.isTrained ? "recorded" : "stated";
    if (this.proof !== undefined && isProvedMember(this.proof, nameOfMember(row))) return "proved";
    return row.kind === "stated" || !this.isTrained ? "stated" : "recorded";
  }

  /** The statement of a member, whether it is there, redacted, or not recorded. */
  stated(name: string, value: unknown, path: readonly string[], of?: string): Statement {
    if (isRedacted(value)) return { name, value: null, basis: "redacted" };
    return statement(name, value === undefined ? undefined : textOf(value), this.basisOf(path), {
      ...(of === undefined ? {} : { of }),
    });
  }
}
