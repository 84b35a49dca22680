/**
 * Reads from a version's provenance what a replay of its user's own program needs. Where something lacks, the reason is
 * typed. Pure.
 */
import { readProgramRecord } from "../../../shared/programs/program-record.js";
import { valueOf, type OpenedProvenance } from "../../../shared/provenance/openings.js";
import type { DataDescription, ProgramRecord, Scalar } from "../../../shared/provenance/provenance.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { membersOf, passedParameters, type Unreplayable, type UnreplayableReason } from "./story.js";
import { isProgramStory } from "./told-story.js";

export interface ProgramStory {
  readonly program: ProgramRecord;
  readonly parameters: Readonly<Record<string, Scalar>>;
  readonly seed: string;
  readonly invocation: number;
  readonly base: Hash;
  /** undefined: it got no samples. */
  readonly data: { readonly hash: Hash; readonly description: DataDescription | undefined } | undefined;
}

export type ReadProgramStory =
  | { readonly story: ProgramStory; readonly opened: OpenedProvenance; readonly unreplayable?: never }
  | { readonly unreplayable: Unreplayable };

/** @returns undefined where no recorded program made the version */
export function programStoryOf(opened: OpenedProvenance | undefined): ReadProgramStory | undefined {
  if (opened === undefined || !isProgramStory(opened)) return undefined;
  const cannot = (reason: UnreplayableReason, text: string): ReadProgramStory => ({
    unreplayable: { reason, text },
  });
  const hidden = (["program", "parameters", "random"] as const).filter(
    (name) => valueOf(opened, name) === undefined,
  );
  if (hidden.length > 0)
    return cannot(
      "redacted",
      `its ${hidden.join(" and ")} were redacted, so nobody can run its program again.`,
    );
  const { bases, data } = opened.provenance;
  const [base] = bases;
  const program = readProgramRecord(valueOf(opened, "program"));
  const { seed, invocation } = membersOf(valueOf(opened, "random"));
  if (program === undefined || base === undefined || bases.length > 1 || data.length > 1)
    return cannot(
      "unsupported",
      "what it states of its program has a form that this release does not run, or it has several bases or data sets.",
    );
  const [hash] = data;
  const described: unknown = valueOf(opened, "data");
  const [description] = Array.isArray(described) ? (described as readonly unknown[]) : [];
  return {
    opened,
    story: {
      program,
      parameters: passedParameters(membersOf(valueOf(opened, "parameters"))),
      seed: String(seed),
      invocation: Number(invocation),
      base,
      data:
        hash === undefined ? undefined : { hash, description: description as DataDescription | undefined },
    },
  };
}
