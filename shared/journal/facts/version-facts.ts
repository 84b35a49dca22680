/**
 * Facts about versions: what is recorded, kept, proved and dropped, and the rules for it. Types, and the words of spot
 * checks.
 */
import type { Hash } from "../../tensor/tensor.js";
import type { Caused } from "./fact-members.js";

/** The extent to which a training was repeated (MERIT, ME1): all bits, all operations and measures, or less. */
export type ReplayGrade = "bit-exact" | "execution-exact" | "different";

/** The time of a replay and the place of its data, as the server measured it; absent in facts of earlier releases. */
export interface MeasuredReplay {
  /** Milliseconds of its training. */
  readonly workMs?: number;
  /** The place that its data came from. */
  readonly dataFrom?: "stored" | "registered" | "generator";
  /**
   * The other side of the comparison of a proved story's data description: a reader, what this server's reader said
   * when it stored the samples, what came with the samples, or nothing. Absent: an earlier release, which compared
   * neither it nor metric and losses.
   */
  readonly description?: "reader" | "stored" | "sent" | "none";
}

/** The policy by which the tensors of models that a replay proved are dropped. */
export interface DropPolicy {
  /** Days after they were recorded; null: their tensors are kept. */
  readonly afterDays: number | null;
  /** Minutes of training that a recovery may take. */
  readonly maxMinutes: number;
  /**
   * Days after which the stored data of proved models go, whose tensors are kept; absent: they stay as long as their
   * versions.
   */
  readonly dataAfterDays?: number;
}

/**
 * The words for how a spot check stands.
 * `asked`: segments are chosen, and the device has yet to give their states;
 * `passed`: each gave what was committed to;
 * `refuted`: one did not;
 * `not-available`: the device lost their states, or does not give them.
 */
export const spotCheckOutcomes = ["asked", "passed", "refuted", "not-available"] as const;

export interface SpotCheck {
  readonly outcome: (typeof spotCheckOutcomes)[number];
  /** The chosen segments, from 0, ascending. */
  readonly segments: readonly number[];
  /** All segments of the training. */
  readonly of: number;
  /** The engine that runs them. */
  readonly engineId: Hash;
  readonly because: string;
}

/** Segments of one spot check, at most: its fact has to fit into one entry of the journal. */
export const maxCheckedSegments = 1000;

export type VersionFact =
  /**
   * A version exists: its record and every object it needs are in the store. `version` counts per (fleet,
   * name).
   */
  | (Caused & {
      readonly type: "recorded";
      readonly versionId: Hash;
      readonly name: string;
      readonly version: number;
      /**
       * Bytes of all tensors, and of those that this version owns by the owner map; absent where there are
       * none.
       */
      readonly tensorBytes?: number;
      readonly ownBytes?: number;
      /**
       * Bytes that the version added to the store when it was recorded, as they were stored then; absent in older
       * journals.
       */
      readonly storedBytes?: number;
      /** Generation of the device that sent every byte of it; absent for what no device sent. */
      readonly generation?: number;
      /** True if it came from another repository: no device of this fleet has its number in a line. */
      readonly received?: true;
      /**
       * True if its tensors are not in the store: a device reported how it was made, and a replay has yet to
       * give them. `version` is 0; a later fact `recorded` without this gives it a number.
       */
      readonly claim?: true;
      /** True for every claim: an older release would take it for a version. */
      readonly critical?: true;
    })
  /** The server has read the stored model back and verified its root. */
  | (Caused & { readonly type: "stored"; readonly versionId: Hash })
  /** The conditions of the release policy are met: the device may delete its copy. */
  | (Caused & { readonly type: "released"; readonly versionId: Hash; readonly because: string })
  | (Caused & { readonly type: "retired"; readonly versionId: Hash; readonly because: string })
  | (Caused & {
      readonly type: "tagged";
      readonly name: string;
      readonly tag: string;
      readonly versionId: Hash | null;
    })
  | (Caused & {
      readonly type: "held" | "unheld";
      readonly versionId: Hash;
      readonly because: string;
    })
  /**
   * A person declares that one version comes after another one, whatever it was trained from (MH15), or no
   * longer does.
   */
  | (Caused & {
      readonly type: "succeeded";
      readonly versionId: Hash;
      readonly successor: Hash;
      readonly removed?: true;
      readonly because: string;
    })
  /**
   * A retention rule of the fleet, or of one line or one name in it (never both); the latest one of a
   * scope applies, null removes it.
   */
  | (Caused & {
      readonly type: "retention";
      readonly line: string | null;
      readonly name: string | null;
      readonly rule: string | null;
    })
  /**
   * The policy by which the tensors of proved models are dropped, of the fleet, or of one line or one name in
   * it (never both); the latest one of a scope applies, null removes it.
   */
  | (Caused & {
      readonly type: "drop-policy";
      readonly line: string | null;
      readonly name: string | null;
      readonly policy: DropPolicy | null;
    })
  /** A version was made once more from its provenance (not a claim, whose tensors were never sent). */
  | (Caused & {
      readonly type: "replayed";
      readonly versionId: Hash;
      readonly verdict: "proved" | "refuted";
      readonly grade: ReplayGrade;
      /** The id of the engine that ran, or of the user's own program. */
      readonly engineId: Hash;
      readonly because: string;
    } & MeasuredReplay)
  /**
   * Some segments of a version's training were chosen to be run again, from the states that its device committed to, or
   * were run. Proves nothing, and frees nothing.
   */
  | (Caused & {
      readonly type: "spot-checked";
      readonly versionId: Hash;
    } & SpotCheck)
  /**
   * The tensors of a version need not be stored any more: it is recovered by a replay. What that needs stays: record
   * and story, and what is named here.
   */
  | (Caused & {
      readonly type: "dropped";
      /** An older release would take the version for damaged, and delete what its replay needs. */
      readonly critical: true;
      readonly versionId: Hash;
      /** The version that its training began from; null: from none. */
      readonly base: Hash | null;
      /** The stored archive of the engine that gave its very tensors here. */
      readonly engine: Hash;
      /** The id that trainings with that engine report. */
      readonly engineId: Hash;
      /** Manifest of the stored data of its training; null: a generator makes them. */
      readonly data: Hash | null;
      /** Milliseconds that its training took on this server. */
      readonly replayMs: number;
      readonly because: string;
    })
  /** The tensors of a dropped version are stored again, and stay. */
  | (Caused & { readonly type: "kept"; readonly versionId: Hash; readonly because: string })
  /**
   * The stored data of a version's training are not kept for it any more: a replay proved it, and its tensors stay. It
   * cannot be replayed again, unless somebody stores the same data once more.
   */
  | (Caused & {
      readonly type: "data-dropped";
      /** An older release would take the missing data for damage. */
      readonly critical: true;
      readonly versionId: Hash;
      readonly because: string;
    })
  /** A person published the version here, or pulled it, and stated this of it; each replaces the one before. */
  | (Caused & {
      readonly type: "listed";
      readonly versionId: Hash;
      /** SPDX expression. */
      readonly license?: string;
      readonly task?: string;
    })
  /** The version was evaluated, and the evaluation is stored. */
  | (Caused & {
      readonly type: "evaluated";
      readonly versionId: Hash;
      /** Object of the kind "evaluation". */
      readonly object: Hash;
      /** Object of the kind "predictions", where they were asked for. */
      readonly predictions?: Hash;
    })
  /** The replay of a claim gave the recorded root; the fact `recorded` of the version follows. */
  | (Caused & {
      readonly type: "proved";
      readonly versionId: Hash;
      readonly grade: ReplayGrade;
      readonly engineId: Hash;
      readonly because: string;
    } & MeasuredReplay)
  /** The replay of a claim gave something else: the device is asked for the tensors. */
  | (Caused & {
      readonly type: "refuted";
      readonly versionId: Hash;
      readonly grade: ReplayGrade;
      readonly engineId: Hash;
      readonly because: string;
    })
  /** A claim cannot be replayed here: the device is asked for the tensors. */
  | (Caused & { readonly type: "unreplayable"; readonly versionId: Hash; readonly because: string });
