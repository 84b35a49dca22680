/**
 * The parts that operations work with: repositories, settings, and the live server's rooms. `live` exists
 * only in a running server. Types only.
 */
import type { RecentEvents } from "../../../shared/adapters/recent-log.js";
import type { ErrorCode } from "../../../shared/errors.js";
import type { Caller } from "../../../shared/journal/caller.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { RequiredConfinement } from "../../../shared/train/own-recipes/confinement.js";
import type { TrainingProgress } from "../../../shared/train/training.js";
import type { Authority } from "../../access/identity/authority.js";
import type { Grant } from "../../interface/api/rights.js";
import type { EventHub } from "../../interface/events/event-hub.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { Home } from "../../storage/repository/home.js";
import type { OpenFleets } from "./open-fleets.js";
import type { LineLeases } from "./line-leases.js";
import type { TrainingLimits } from "./training-limits.js";

/** The predicted bytes that a version takes to a device. */
export interface PredictedBytes {
  readonly bytes: number;
  /** Taken from the share of others, since too many devices have something different. */
  readonly isEstimated: boolean;
  /** True if the profile of the device says that its link is metered. */
  readonly metered: boolean;
}

/** A command for a device. */
export interface CommandToSend {
  readonly name: string;
  readonly body: unknown;
  /** The request that it belongs to; absent: the server sends it by itself. */
  readonly request?: string | undefined;
}

/** A fleet whose devices may be connected. */
export interface LiveFleet {
  isOnline(device: string): boolean;
  /** Returns why a device does not believe this server; undefined if it has not reported that. */
  doubtOf(device: string): { readonly sinceMs: number; readonly text: string } | undefined;
  /** The connections in its name that were refused since this process started, by reason, the newest first. */
  refusalsOf(device: string): readonly {
    readonly code: ErrorCode;
    readonly message: string;
    readonly address: string;
    readonly count: number;
    readonly atMs: number;
  }[];
  /**
   * Returns until when it was connected since this process started: now, where it still is; undefined if it was not.
   */
  seenAtMs(device: string): number | undefined;
  readonly onlineCount: number;
  /**
   * A version was assigned: it is offered now, or when the device connects next.
   * @param allowed the rollout in which it is the device's turn: what that stages is offered, too
   */
  assigned(device: string, allowed?: string): Promise<void>;
  /** Devices that the version is being sent to. One that has asked for nothing more for a while is not among them. */
  fetching(versionId: Hash): ReadonlySet<string>;
  /** Tells the device now, where it is connected, that something was set on it. */
  settingsChanged(device: string): void;
  /** The limit for sending models to all devices together; null: no limit. */
  readonly sendBytesPerSecond: number | null;
  /** Predicts how many bytes the version takes to each of these devices. */
  predict(
    summary: VersionSummary,
    line: string,
    devices: readonly string[],
  ): Promise<ReadonlyMap<string, PredictedBytes>>;
  /**
   * Returns a connected device's policy for releases; undefined if it does not look at releases, or is not connected.
   */
  releasePolicyOf(device: string): string | undefined;
  /** The owner's releases changed: connected devices are sent them, and offered again what they may have refused. */
  releasesChanged(): Promise<void>;
  /** The owner signed a restore: connected devices that do not believe this server are shown that now. */
  restoreApproved(): Promise<void>;
  /** Witnesses cosigned the journal: connected devices are offered again what they may have refused. */
  cosigned(): Promise<void>;
  /** The owner stated the time: connected devices are told. */
  timeStated(): Promise<void>;
  /** A recipe of the fleet's own was approved, or its approval revoked: connected devices are told. */
  recipesChanged(): void;
  /** Removes what is here of uploads that the device, or one that is not known any more, did not finish. */
  forgetUploads(device: string): Promise<void>;
  /** Ends the device's connection. */
  cutOff(device: string): Promise<void>;
  command(
    device: string,
    command: CommandToSend,
    timeoutMs: number,
  ): Promise<{ readonly code: string; readonly result: unknown }>;
  /** A version was saved here: it is read back, and uploads that wait for it as their base continue. */
  saved(versionId: Hash): void;
  /** Asks a device for the parameters of its claims, where it is connected. */
  wantClaims(device: string): Promise<void>;
  /** The replay of a claim ended; the fleet's state tells how. */
  claimEnded(versionId: Hash): Promise<void>;
  backedUp(): void;
  /** Versions that running transfers rely on, each with the name of its transfer. */
  underWay(): ReadonlyMap<Hash, string>;
  /** The lines whose devices train for one search or evaluation each. */
  readonly lineLeases: LineLeases;
}

/** The server's addresses, as new enrolment files state them for devices. */
export interface EnrolmentAddresses {
  /** mqtt:// or mqtts:// URLs, tried in order. */
  readonly mqtt: readonly string[];
  /** The URL for HTTP; undefined: the address that the server listens on. */
  readonly http: string | undefined;
  /** PEM of the authority that signs the broker's certificate; undefined: the system's own. */
  readonly ca: string | undefined;
  /** PEM of the server's own authority; undefined: it has no certificates of its own. */
  readonly authorities?: readonly string[] | undefined;
  /** First levels of every topic. */
  readonly root: string;
  /** True if devices may have tokens instead of certificates. */
  readonly takesTokens: boolean;
}

/** The queued replay that runs now. */
export interface RunningReplay {
  readonly fleet: string;
  readonly versionId: Hash;
  readonly startedAtMs: number;
  /** The progress of its training; undefined until that has begun. */
  progress: TrainingProgress | undefined;
}

/** The runner of queued replays. */
export interface LiveReplays {
  readonly running: RunningReplay | undefined;
  /** Looks for work, because something was queued. */
  wake(): void;
  /** Ends a replay that runs and that was cancelled. */
  stop(fleet: string, versionId: Hash): void;
}

/** The part that carries running rollouts forward. */
export interface LiveRollouts {
  /** A rollout was started, or continued. */
  wake(): void;
  /** Returns why a device was not judged yet; undefined if it was not asked since the server started. */
  waits(fleet: string, rollout: string, device: string): string | undefined;
}

/** The state of a webhook's deliveries since the server started; absent members: nothing to say. */
export interface WebhookState {
  readonly deliveredAtMs?: number;
  readonly failures?: number;
  readonly because?: string;
  readonly againAtMs?: number;
}

/** The part that sends facts to webhooks. */
export interface LiveWebhooks {
  stateOf(name: string): WebhookState;
  /** A webhook was moved or removed: it is tried at once. */
  forget(name: string): void;
}

/** Names of devices at a broker that knows a device by its name alone, whatever its fleet. */
export interface NamesAtBroker {
  /** Enrols a device, one at a time. @throws NAME_INVALID where another fleet has or had a device of this name */
  claim<T>(subject: { readonly fleet: string; readonly device: string }, enrol: () => Promise<T>): Promise<T>;
}

export interface LiveServer {
  readonly mqttUrl: string;
  /**
   * Returns the URL of the HTTP interface; undefined until it listens, which is after the operations exist
   * that it serves.
   */
  readonly httpUrl: () => string | undefined;
  readonly enrolment: EnrolmentAddresses;
  /** The server's own; undefined: it uses none. */
  readonly authority: Authority | undefined;
  /** The names of its devices; undefined where the broker tells those of fleets apart. */
  readonly namesAtBroker?: NamesAtBroker | undefined;
  /** Required before a certificate or an invitation is made by the clock. @throws CLOCK_NOT_TRUSTED */
  requireClock(): void;
  readonly events: EventHub;
  /** The newest lines of the server's log. */
  readonly recentLog: Pick<RecentEvents, "matching" | "sinceMs">;
  readonly replays: LiveReplays;
  readonly rollouts: LiveRollouts;
  readonly webhooks: LiveWebhooks;
  fleet(fleet: string): Promise<LiveFleet>;
}

export interface OperationsContext {
  readonly home: Home;
  readonly fleets: OpenFleets;
  readonly version: string;
  /** The user of the operations: every fact that they append carries it. Undefined: a rule or the server itself. */
  readonly caller?: Caller | undefined;
  /** The grant of the caller; absent: everything. Operations look at it where their right and path do not say all. */
  readonly grant?: Grant | undefined;
  /** The request by which they are used: facts and commands to devices carry it too. */
  readonly request?: string | undefined;
  readonly live?: LiveServer;
  /** The addresses for enrolment files where no server runs, from the home's server.json. */
  readonly plannedEnrolment?: () => Promise<EnrolmentAddresses>;
  /** Reads how the machine's owner wants the process with own recipes confined; absent: namespaces. */
  readonly recipeConfinement?: () => Promise<RequiredConfinement>;
  /** Reads what trainings may take on this server; absent: the defaults. */
  readonly trainingLimits?: () => Promise<TrainingLimits>;
  /** True if server.json lets others publish to this server and pull from it; absent: it does not. */
  readonly isHub?: () => Promise<boolean>;
  /** Bytes that unfinished uploads to a fleet of this hub may have; absent: no bound. */
  readonly maxUnfinishedBytes?: number;
  /** True if server.json wants every rollout to be approved by a second person; absent: it does not. */
  readonly rolloutApproval?: () => Promise<boolean>;
}
