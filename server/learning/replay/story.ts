/**
 * Reads from a version's record and provenance what has to run again to make it once more. Where the
 * provenance lacks something, the version cannot be replayed, and the reason is typed. Pure.
 */
import { isAverageStory } from "../../../shared/average/average-record.js";
import { valueOf, type OpenedProvenance } from "../../../shared/provenance/openings.js";
import type { DataDescription, RecipeReference } from "../../../shared/provenance/provenance.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { isProgramStory } from "./told-story.js";
import type { TrainingJob } from "../../../shared/train/training.js";

/** The making of a version. */
export interface Story {
  /** The id that trainings by the engine report; the engine's archive has another id. */
  readonly engineId: Hash;
  readonly recipe: RecipeReference;
  readonly parameters: TrainingJob["parameters"];
  readonly seed: string;
  readonly invocation: number;
  readonly base: Hash | undefined;
  /** True if the optimizer continued from the state that came with the base. */
  readonly continuesOptimizer: boolean;
  readonly data: { readonly hash: Hash; readonly description: DataDescription | undefined };
  readonly exactness: "wasm" | "native";
}

/**
 * `no-provenance`, `other-trainer`: nothing that an engine could run; `redacted`: what it needs was redacted;
 * `unsupported`: a form that this release does not run; `recipe-not-approved`: a recipe of the fleet's own trained
 * it, which nobody approved here, or whose approval was revoked; `engine-missing`, `base-missing`, `data-missing`:
 * not here; `other-class`: only a machine of another exactness class gives these bits; `other-engine`: an engine that
 * did not train it gave other bits; `machine-inexact`: this machine does not compute the engine's known answer;
 * `failed`: the training itself ended with an error; `program-missing`, `program-not-approved`, `job-differs`: the
 * program of the user's own that trained it is not here, is not approved here, or would be given another job than the
 * recorded one; `too-long`: the replay took longer than was allowed, or than the device of a claim stated.
 */
export type UnreplayableReason =
  | "no-provenance"
  | "other-trainer"
  | "redacted"
  | "unsupported"
  | "recipe-not-approved"
  | "engine-missing"
  | "base-missing"
  | "data-missing"
  | "other-class"
  | "other-engine"
  | "program-missing"
  | "program-not-approved"
  | "job-differs"
  | "machine-inexact"
  | "failed"
  | "too-long";

export interface Unreplayable {
  readonly reason: UnreplayableReason;
  /** The missing part, and what to do. */
  readonly text: string;
}

export type ReadStory =
  { readonly story: Story; readonly opened: OpenedProvenance } | { readonly unreplayable: Unreplayable };

const cannot = (reason: UnreplayableReason, text: string): ReadStory => ({ unreplayable: { reason, text } });

/** @param opened undefined where the version has no provenance of this form */
export function storyOf(opened: OpenedProvenance | undefined): ReadStory {
  if (opened === undefined)
    return cannot(
      "no-provenance",
      "it has no provenance: it was imported, or saved by another program. Only models that Stemma or a " +
        "recorded program trained can be replayed.",
    );
  if (isProgramStory(opened))
    return cannot(
      "other-trainer",
      "a recorded program of its owner's own trained it, which only `stemma replay run` repeats, as it was.",
    );
  if (isAverageStory(opened))
    return cannot(
      "other-trainer",
      "no training made it: it is the average of its bases, which only `stemma replay run` computes again, as it was.",
    );
  const { engine, recipe, exactness, bases, data } = opened.provenance;
  if (engine === undefined || recipe === undefined || exactness === "none")
    return cannot(
      "other-trainer",
      "another program trained it, and its owner does not have it recorded (trainer.record in agent.json), so " +
        "nothing here can repeat it.",
    );
  const [dataHash] = data;
  if (dataHash === undefined || data.length > 1 || bases.length > 1)
    return cannot(
      "unsupported",
      "it was trained from several bases or data sets, which this release does not run.",
    );
  const hidden = (["parameters", "random"] as const).filter((name) => valueOf(opened, name) === undefined);
  if (hidden.length > 0)
    return cannot(
      "redacted",
      `its ${hidden.join(" and ")} were redacted, so nobody can repeat the training.`,
    );
  const random = membersOf(valueOf(opened, "random"));
  const [description] = listOf(valueOf(opened, "data"));
  return {
    opened,
    story: {
      engineId: engine,
      recipe,
      parameters: passedParameters(membersOf(valueOf(opened, "parameters"))),
      seed: String(random["seed"]),
      invocation: Number(random["invocation"]),
      base: bases[0],
      continuesOptimizer: stateBefore(opened) !== "initial",
      data: { hash: dataHash, description: description as DataDescription | undefined },
      exactness,
    },
  };
}

/** Returns the passed parameters without the recipe's defaults: the engine that the record names has the same ones. */
export function passedParameters(parameters: Members): TrainingJob["parameters"] {
  return Object.fromEntries(
    Object.entries(parameters).flatMap(([name, parameter]) => {
      const { value, from } = membersOf(parameter);
      return from === "default" ? [] : [[name, plain(value)] as const];
    }),
  );
}

function stateBefore(opened: OpenedProvenance): unknown {
  return membersOf(membersOf(valueOf(opened, "state"))["optimizer"])["before"] ?? "initial";
}

/** Canonical JSON reads whole numbers as 64-bit integers. */
function plain(value: unknown): string | number | boolean {
  return typeof value === "bigint" ? Number(value) : (value as string | number | boolean);
}

type Members = Readonly<Record<string, unknown>>;

export function membersOf(value: unknown): Members {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Members) : {};
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
