/**
 * The facts of a journal, which record everything that changes over time. Types only. (docs/formats.md,
 * "Facts")
 *
 * Allotted to later releases, so that none of these names gets another meaning:
 *
 * | type | critical | for |
 * |---|---|---|
 * | `low-bits-asked`, `low-bits-answered` | no | questions for low bits |
 *
 * A critical fact has the member `critical: true`. A release that knows neither it nor its type refuses the
 * journal with FACT_INVALID; every other unknown fact is kept and ignored, and nothing is deleted meanwhile.
 */
import type { Hash } from "../tensor/tensor.js";
import type { Caller } from "./caller.js";

interface Timed {
  /** Clock of the server (or agent), milliseconds since 1970. */
  readonly atMs: number;
}

/** A fact that a person or a token can cause: `by` is who did; a text in older journals. */
interface Caused extends Timed {
  readonly by?: Caller | string;
  /** The request that it was caused by, over HTTP or the local socket (shared/request-id.ts). */
  readonly request?: string;
}

/** How much of a training was repeated (MERIT, ME1): all bits, all operations and measures, or less. */
export type ReplayGrade = "bit-exact" | "execution-exact" | "different";

/** What a replay took and had, as the server measured it; absent in facts of earlier releases. */
export interface MeasuredReplay {
  /** Milliseconds of its training. */
  readonly workMs?: number;
  /** Where its data came from. */
  readonly dataFrom?: "stored" | "registered" | "generator";
}

/** When the tensors of models that a replay proved are dropped. */
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

/** How a rollout goes on, and when it stops. */
export interface RolloutPolicy {
  /** Devices of each wave: a number ("8"), a share of those that the selection means ("10%"), or "rest". */
  readonly waves: readonly string[];
  /** Minutes to wait after a wave. */
  readonly soakMinutes: number;
  /** After so many minutes a wave does not wait for devices that did not answer. */
  readonly timeoutMinutes: number;
  /** Highest probability that a version which is nowhere worse is found to be worse. */
  readonly level: number;
  /** Mean difference of the losses up to which a version is not worse. */
  readonly margin: number;
  /** Highest share of a wave's devices on which the version may be worse or fail. */
  readonly maxFailed: number;
  /** Lowest share of a wave's devices that must have answered. */
  readonly minAnswered: number;
  /** Whether a device's own model stays where it is the better one on the device's samples. */
  readonly own: "replace" | "keep";
  /** What happens to a device that has no samples to compare by. */
  readonly unmeasured: "fail" | "switch";
  readonly onFailure: "pause" | "undo";
  /** Devices that fetch and measure at the same time. */
  readonly atOnce: number;
  /** Held-out samples that a device measures by; absent: all. */
  readonly samples?: number;
  /** Gates; absent: none. How many times as long a sample may take as with what the device runs. */
  readonly maxSlowdown?: number;
  /** MiB of memory that an inference may need more. */
  readonly maxMoreMemoryMb?: number;
  /** How far outputs may move: the share of samples with another class, or the mean difference of numbers. */
  readonly maxChange?: number;
  /** A trial on the live inputs of each device; absent: none. */
  readonly live?: LiveTrialPolicy;
  /** It starts only after another person than its creator has approved it. */
  readonly approval?: boolean;
  /** So many minutes after its start it ends, and no further device gets the version; absent: never. */
  readonly deadlineMinutes?: number;
  /** Times of the week in which devices are asked, in their own time ("mon-fri 22:00-05:00"); absent: always. */
  readonly windows?: readonly string[];
  /** A device fetches and measures only on external power, as it states itself. */
  readonly onlyOnPower?: boolean;
  /** And only on one of these kinds of link; absent: on any. */
  readonly links?: readonly string[];
  /** Where several open rollouts of a line mean a device, the highest goes first; absent: 0. */
  readonly priority?: number;
  /** Bytes a second that all its devices are sent together at most; absent: no limit. */
  readonly maxBytesPerSecond?: number;
}

/** The device's own software runs the version beside what the line runs before it may switch. */
export interface LiveTrialPolicy {
  /** Live inputs on which both are compared. */
  readonly inputs: number;
  /** Minutes in which it has to tell of so many, of the time in which the agent runs; then the device is unknown. */
  readonly minutes: number;
  /** Highest share of the inputs on which the version may fail. */
  readonly maxFailed: number;
}

export type RolloutPhase = "running" | "paused" | "aborted" | "undone" | "done";

/**
 * `passed`: the device switches. `kept`: its own model is the better one. `worse`: the version is worse on its samples.
 * `failed`: it could not be installed or measured. `left`: the device takes no part any more.
 * `unknown`: its software did not tell of as many live inputs as were asked for; it keeps what it runs.
 */
export type RolloutVerdict = "passed" | "kept" | "worse" | "failed" | "left" | "unknown";

/** The losses of the version less those of what the device ran, sample by sample. */
export interface ComparedLosses {
  readonly samples: number;
  readonly meanDifference: number;
  readonly standardError: number;
}

/** What a device measured of a version beside what it ran; what it did not measure is absent. */
export interface RolloutTrial {
  /** Median time of one sample, as a multiple. */
  readonly slowdown?: number;
  /** Bytes of memory that it needed more; negative: less. */
  readonly moreBytes?: number;
  /** Share of samples with another class, or mean absolute difference of the outputs. */
  readonly change?: number;
}

/** What a device's software told of live inputs on which it ran the version beside what the line runs. */
export interface LiveTrialResult {
  /** Inputs on which both were compared. */
  readonly inputs: number;
  /** Inputs on which only the version failed. */
  readonly failed: number;
  readonly compared?: ComparedLosses;
  readonly slowdown?: number;
  readonly change?: number;
}

/** What the transfer of a version to a device is expected to take. */
export interface PlannedTransfer {
  readonly bytes: number;
  /** Null: nothing was measured on the device, or on others of its profile. */
  readonly ms: number | null;
}

/** What the server keeps of a device's certificate. */
export interface DeviceCertificate {
  /** Lower-case hex. */
  readonly serial: string;
  /** Of its public key (shared/trust/certificates/connection-key.ts). */
  readonly keyHash: string;
  readonly notAfterMs: number;
}

export type Fact =
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
      /** Generation of the device that sent every byte of it; absent for what no device sent. */
      readonly generation?: number;
      /**
       * Its tensors are not in the store: a device reported how it was made, and a replay has yet to give them.
       * `version` is 0; a later fact `recorded` without this gives it a number.
       */
      readonly claim?: true;
      /** Of every claim: an older release would take it for a version. */
      readonly critical?: true;
    })
  /** Labels of a device, by key; null removes one. They stay when the device is enrolled again. */
  | (Caused & {
      readonly type: "labelled";
      readonly device: string;
      readonly labels: Readonly<Record<string, string | null>>;
    })
  /** The server has read the stored model back and verified its root. */
  | (Caused & { readonly type: "stored"; readonly versionId: Hash })
  /** The conditions of the release policy are met: the device may delete its copy. */
  | (Caused & { readonly type: "released"; readonly versionId: Hash; readonly because: string })
  | (Timed & {
      readonly type: "activated";
      readonly versionId: Hash;
      readonly device: string;
      readonly line: string;
      readonly deviceAtMs: number;
      readonly deviceClockErrorMs: number | null;
      readonly session: number;
    })
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
   * When the tensors of proved models are dropped, of the fleet, or of one line or one name in it (never both); the
   * latest one of a scope applies, null removes it.
   */
  | (Caused & {
      readonly type: "drop-policy";
      readonly line: string | null;
      readonly name: string | null;
      readonly policy: DropPolicy | null;
    })
  /** Starts the device's next generation: sessions and activations count within it. */
  | (Caused & {
      readonly type: "enrolled";
      readonly device: string;
      /** From 1; absent in older journals, where each enrolment counts one. */
      readonly generation?: number;
      readonly publicKey: string;
      /** Empty where the device has a certificate. */
      readonly tokenHash: string;
      readonly profile: string;
      readonly lines: readonly string[];
      /** Of a device that made its own keys: its first certificate. */
      readonly certificate?: DeviceCertificate;
      /** The batch with whose invitation it enrolled. */
      readonly batch?: string;
    })
  /** One invitation for many devices: the bounds within which they may enrol. */
  | (Caused & {
      readonly type: "batch-created";
      readonly batch: string;
      /** Of the key in the invitation. */
      readonly publicKey: string;
      /** Devices that may enrol, at most. */
      readonly count: number;
      readonly expiresAtMs: number;
      readonly profile: string;
      readonly lines: readonly string[];
      /** Names that they may have: a pattern, or a list; absent: any. */
      readonly namePattern?: string;
      readonly names?: readonly string[];
      /** Each is held until a person accepts it. */
      readonly hold: boolean;
      /** A device whose name is taken may enrol in place of that one. */
      readonly mayReplace: boolean;
      /** That each is given. */
      readonly labels?: Readonly<Record<string, string>>;
      /** Version that each line starts from. */
      readonly initial?: Readonly<Record<string, Hash>>;
    })
  /** No further device enrols with its invitation. */
  | (Caused & { readonly type: "batch-revoked"; readonly batch: string; readonly because: string })
  /** A device has renewed its certificate. */
  | (Timed & {
      readonly type: "certified";
      readonly device: string;
      readonly generation: number;
      readonly certificate: DeviceCertificate;
    })
  | (Caused & { readonly type: "revoked"; readonly device: string; readonly because: string })
  /** By the server, where two copies of an enrolment are in use; or by a person. */
  | (Caused & { readonly type: "quarantined"; readonly device: string; readonly because: string })
  | (Caused & { readonly type: "unquarantined"; readonly device: string; readonly because: string })
  /** A revoked device is not listed any more; its models and facts stay, and its name may be enrolled again. */
  | (Caused & { readonly type: "device-removed"; readonly device: string; readonly because: string })
  /** A person had everything erased that a revoked device gave; `retired` of its versions follows. */
  | (Caused & { readonly type: "device-erased"; readonly device: string; readonly because: string })
  /** Settings that a device is to have, by key (shared/wire/device-settings.ts); null removes one. */
  | (Caused & {
      readonly type: "settings";
      readonly device: string;
      readonly settings: Readonly<Record<string, string | number | null>>;
    })
  /** All settings that this generation of a device says it has from the server. */
  | (Timed & {
      readonly type: "settings-reported";
      readonly device: string;
      readonly generation: number;
      readonly settings: Readonly<Record<string, string | number>>;
    })
  | (Timed & { readonly type: "session"; readonly device: string; readonly session: number })
  /** A server model given to a device's line as its initial model or update. */
  | (Caused & {
      readonly type: "assigned";
      readonly device: string;
      readonly line: string;
      readonly versionId: Hash;
      /** The rollout that it belongs to; absent: a person assigned it. */
      readonly rollout?: string;
    })
  /** A version is to go to a selection of devices, in waves. It starts with a fact `rollout-phase`. */
  | (Caused & {
      readonly type: "rollout";
      /** Its name, which no other rollout of the fleet has. */
      readonly rollout: string;
      /** An older release would neither go on with it nor keep what its devices return to. */
      readonly critical: true;
      readonly line: string;
      readonly versionId: Hash;
      /** Selection of devices (docs/selections.md). */
      readonly select: string;
      readonly policy: RolloutPolicy;
      /** The rollout of the same line that it ends when it starts. */
      readonly supersedes?: string;
    })
  /** Another person than its creator agrees that it may start. */
  | (Caused & { readonly type: "rollout-approved"; readonly rollout: string; readonly because: string })
  /** A rollout starts, pauses, goes on, or ends. */
  | (Caused & {
      readonly type: "rollout-phase";
      readonly rollout: string;
      readonly phase: RolloutPhase;
      readonly because: string;
    })
  /** Devices are in a wave of a rollout from now on; a large wave is several facts. */
  | (Timed & {
      readonly type: "wave";
      readonly rollout: string;
      /** From 1. */
      readonly wave: number;
      readonly devices: readonly string[];
      /** What the transfer to each of them was expected to take, in their order; absent: not known. */
      readonly planned?: readonly PlannedTransfer[];
    })
  /** What a device measured on its held-out samples, before a trial on its live inputs; a later one replaces it. */
  | (Timed & {
      readonly type: "measured";
      readonly rollout: string;
      readonly device: string;
      /** What its line ran. */
      readonly before: Hash;
      readonly because: string;
      /** Absent: it could not compare by its samples. */
      readonly compared?: ComparedLosses;
      readonly trial?: RolloutTrial;
    })
  /** What came of a device in a rollout, before it runs the version. */
  | (Timed & {
      readonly type: "judged";
      readonly rollout: string;
      readonly device: string;
      readonly verdict: RolloutVerdict;
      /** What its line ran, which a return gives it again; null: nothing. */
      readonly before: Hash | null;
      readonly because: string;
      /** The comparison of both versions by the device's own held-out samples; absent: there was none. */
      readonly compared?: ComparedLosses;
      readonly trial?: RolloutTrial;
      /** After a fact `measured`, of which the rest stays. */
      readonly live?: LiveTrialResult;
    })
  /** A hook of the device refused the version that it was to switch to. */
  | (Timed & {
      readonly type: "switch-failed";
      readonly rollout: string;
      readonly device: string;
      readonly because: string;
    })
  /** The server has sent this generation of the device every byte of the version that it had not already. */
  | (Timed & {
      readonly type: "given";
      readonly device: string;
      readonly generation: number;
      readonly versionId: Hash;
      /** Bytes of the blocks that were sent for it, and how long that took; absent in older journals. */
      readonly bytes?: number;
      readonly durationMs?: number;
    })
  | (Caused & {
      readonly type: "data";
      readonly name: string;
      readonly kind: string;
      readonly location: string;
      readonly parameters?: Readonly<Record<string, string | number | boolean | readonly string[]>>;
      readonly hash: Hash | null;
      /** Manifest of the stored data set (kind "data"), where its samples were stored. */
      readonly object?: Hash;
      readonly removed?: boolean;
    })
  /** A version was made once more from its provenance (not a claim, whose tensors were never sent). */
  | (Caused & {
      readonly type: "replayed";
      readonly versionId: Hash;
      readonly verdict: "proved" | "refuted";
      readonly grade: ReplayGrade;
      /** What ran. */
      readonly engineId: Hash;
      readonly because: string;
    } & MeasuredReplay)
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
      /** What trainings with that engine report. */
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
  | (Caused & { readonly type: "unreplayable"; readonly versionId: Hash; readonly because: string })
  /** An object that may be redacted (kind "openings") is dropped. Its absence is not damage. */
  | (Caused & { readonly type: "redacted"; readonly object: Hash; readonly because: string })
  /** A training engine is in the store, and may be run here: from this server's own build, or approved. */
  | (Caused & {
      readonly type: "engine-approved";
      /** The stored archive, as save records name it. */
      readonly engine: Hash;
      /** What trainings with it report. */
      readonly engineId: Hash;
      readonly source: "build" | "approval";
      readonly because: string;
    })
  /** The engine may not be run here any more; the next collection removes it. */
  | (Caused & { readonly type: "engine-removed"; readonly engine: Hash; readonly because: string })
  /** The owner's signed releases changed: these are all that are valid now. */
  | (Caused & {
      readonly type: "published";
      /** An older release would offer versions without what devices demand. */
      readonly critical: true;
      /** Object of the kind "release": metadata and manifests. */
      readonly object: Hash;
      /** Versions of the metadata. */
      readonly root: number;
      readonly targets: number;
      readonly timestamp: number;
      /** What the change did, for people. */
      readonly because: string;
    })
  /** A fleet's own recipe is in the store, and may be run here. */
  | (Caused & {
      readonly type: "recipe-approved";
      /** The bundle, as save records name it. */
      readonly recipe: Hash;
      readonly name: string;
      /** The recipe's own number. */
      readonly version: number;
      readonly because: string;
    })
  /** The recipe may not be run any more. What it trained stays. */
  | (Caused & { readonly type: "recipe-revoked"; readonly recipe: Hash; readonly because: string })
  /** The server sends a recipe to a device, which may name it from then on as what trained its models. */
  | (Timed & { readonly type: "recipe-given"; readonly device: string; readonly recipe: Hash })
  /** The server sends this fleet's facts to an address, from another position on, or no more. */
  | (Caused & {
      readonly type: "webhook";
      readonly name: string;
      readonly change: "added" | "moved" | "removed";
      /** Host and port: the rest of an address can be a secret. */
      readonly host: string;
      /** The next fact that it gets; null where it was removed. */
      readonly from: number | null;
    })
  /** The server has another key since then: what it signs from here on is signed by that one. */
  | (Caused & {
      readonly type: "server-key";
      /** Ed25519, hex. */
      readonly publicKey: string;
      readonly before: string;
      /** The key before was withdrawn: what it signs from now on counts for nothing. */
      readonly revoked: boolean;
    })
  | (Caused & { readonly type: "backup"; readonly position: number; readonly location: string })
  /**
   * This store was restored to an older state: devices announce everything from `position` on again. `lostFrom`
   * is the same where no backup holds what is before it (a salvage, a restore that a person declares). `id`: 32
   * random hexadecimal digits, so that no other restore is the same fact: a device accepts each once. Absent in
   * journals of earlier releases.
   */
  | (Caused & {
      readonly type: "restored";
      readonly position: number;
      readonly lostFrom: number | null;
      readonly id?: string;
    })
  /** The fleet's owner signed a restore: devices that demand releases go on after it. */
  | (Caused & {
      readonly type: "restore-approved";
      /** Position of the fact `restored`. */
      readonly restore: number;
      /** JSON with the signatures (shared/trust/releases/restore-approval.ts). */
      readonly approval: string;
    });
