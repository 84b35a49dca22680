/**
 * Defines the state that an agent's journal adds up to. It has, for each version here, how far the server has
 * confirmed it; for each line, which version is the newest and which one runs. Types and queries;
 * outbox-fold.ts applies facts. Its size depends on what the device has, not on how long it has run: of a
 * forgotten version only the receipt stays, until a backup of the server covers it.
 *
 * Invariants: a version's state only moves forward (pending → recorded → stored → released) unless
 * the server was restored; only a released version is ever forgotten; a line's sequence numbers are
 * 1, 2, 3 … without gaps.
 */
import type { Caller } from "../../shared/journal/caller.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { SavedProgress } from "../../shared/train/saved-progress.js";
import type { DatasetReference, TrainingJob } from "../../shared/train/training.js";
import type { KeptVersion } from "../resources/disk-budget.js";

export type Standing = "pending" | "recorded" | "stored" | "released";

export interface SampleRange {
  readonly from: number;
  readonly to: number;
}

/** The members that make a training begin again as the same one: with them, base and engine give the same bits. */
export interface BegunJob {
  readonly base: Hash;
  readonly recipe: string;
  /** The bundle of a recipe of the fleet's own; absent for the others. */
  readonly bundle?: Hash;
  readonly parameters: TrainingJob["parameters"];
  readonly dataset: DatasetReference;
  readonly seed: string;
  /** The samples that it reads, which stay until it has ended; null for other data. */
  readonly samples: SampleRange | null;
  /** The caller who asked for it; absent: a schedule. */
  readonly by?: Caller;
  /** The server's request that asked for it. */
  readonly request?: string;
  /** The parameters that the request named; the others are from the settings. Absent: none. */
  readonly called?: readonly string[];
}

export interface Metric {
  readonly name: string;
  readonly unit: string;
  readonly lowerIsBetter: boolean;
  readonly before: number;
  readonly after: number;
}

export interface OutboxEntry {
  readonly versionId: Hash;
  /** The line that it was trained for, or first assigned to. */
  readonly line: string;
  /** All lines that have it: a version from the server may be assigned to several. */
  readonly lines: readonly string[];
  readonly origin: "trained" | "adopted";
  /** The device's own counter of the line; 0 for a version from the server. */
  readonly sequence: number;
  readonly bases: readonly Hash[];
  readonly tensorBytes: number;
  /** The input pipeline of a version from the server (object of kind "pipeline"); absent: it came without one. */
  readonly pipeline?: Hash | undefined;
  /** Bytes of what its training used and left beside the model; absent where there is nothing. */
  readonly usesBytes?: number | undefined;
  readonly savedAtMs: number;
  readonly metric: Metric | null;
  readonly samples: SampleRange | null;
  readonly standing: Standing;
  /** The time since when the server knows it as a claim, without its tensors; undefined: it does not. */
  readonly claimedAtMs?: number | undefined;
  readonly backedUp: boolean;
  /** The position in the server's journal; undefined before its receipt. */
  readonly position: number | undefined;
  readonly name: string;
  /** The server's counter; undefined before its receipt. */
  readonly version: number | undefined;
  readonly refusal: { readonly code: string; readonly message: string; readonly atMs: number } | undefined;
  /** The position, from 1, among all that each of its lines has had here. */
  readonly orders: Readonly<Record<string, number>>;
}

/** The part of a forgotten version that is kept, so that a loss at the server can be named. */
export type KeptReceipt = Pick<OutboxEntry, "versionId" | "line" | "sequence" | "name" | "version"> & {
  readonly position: number;
};

export interface Activation {
  /** Position among all activations of the line here, from 1, also of those that are dropped from the list. */
  readonly number: number;
  readonly versionId: Hash;
  readonly line: string;
  readonly atMs: number;
  readonly clockErrorMs: number | null;
  readonly session: number;
}

/** A training that has neither given a model nor failed: it runs now, or was cut short. */
export interface BegunTraining {
  readonly invocation: number;
  readonly because: string;
  readonly job: BegunJob;
  /**
   * The number of times it began since it last made progress, without the tries that ended because the agent
   * was stopped in order.
   */
  readonly tries: number;
  /** Most steps that its saved state had when it went on; absent: it never went on from one. */
  readonly iteration?: number | undefined;
  /** The furthest pass over samples when it went on. */
  readonly pass?: SavedProgress["pass"];
  /** The last try ended because the agent was stopped in order. */
  readonly isPaused: boolean;
  /** Another version was chosen for the line meanwhile: the line does not run by itself what this gives. */
  readonly isSuperseded?: true;
}

export interface LineState {
  readonly line: string;
  /** The versions that are here, in the order in which they arrived. */
  readonly versions: readonly Hash[];
  /** Versions that the line is not to run by itself, oldest first: staged, and not activated since. */
  readonly staged: readonly Hash[];
  /** The number of versions that the line has had here. */
  readonly arrivals: number;
  /**
   * The highest position among them (OutboxEntry.orders) of one that the line ran, or that was passed over because
   * another was chosen; 0: none.
   */
  readonly newestRun: number;
  readonly sequence: number;
  /** Oldest first; old ones that the server must know are dropped (outbox-fold.ts). */
  readonly activations: readonly Activation[];
  readonly trainings: number;
  readonly lastTrainingMs: number | undefined;
  /** One past the newest sample that the last training saw. */
  readonly samplesEnd: number;
  /** Begins again before anything else of the line is trained. */
  readonly begun: BegunTraining | undefined;
}

/** The reason why the server is not believed, and since when. */
export interface Distrust {
  readonly text: string;
  readonly atMs: number;
  /** A restore explains it, and the owner's signature of that is missing. */
  readonly unsigned?: true;
}

export interface OutboxState {
  readonly entries: ReadonlyMap<Hash, OutboxEntry>;
  readonly lines: ReadonlyMap<string, LineState>;
  /** Receipts of versions that are no longer here and that no backup covers. */
  readonly receipts: ReadonlyMap<Hash, KeptReceipt>;
  /** The position of the server's journal up to which a backup exists, as the newest receipts state it. */
  readonly backedUpTo: number;
  /** The newest verified head of the server's journal; every receipt here is before it. */
  readonly seen: SeenHead | undefined;
  /** Public key of the server whose head that is. */
  readonly server: string | undefined;
  /**
   * Leaf hashes of the facts `restored` that this device has seen in the server's journal, newest last. None of
   * them explains a later loss.
   */
  readonly knownRestores: readonly Hash[];
  /** The reason why the server is not believed now; undefined: it is. */
  readonly distrust: Distrust | undefined;
  /** Versions that were deleted here and that restores of the server may have lost; newest last. */
  readonly lost: readonly KeptReceipt[];
}

/** A head of the server's journal. */
export interface SeenHead {
  readonly length: number;
  readonly chain: Hash;
  /** The RFC 6962 root. */
  readonly root: Hash;
}

// Queries.

/** Position, from 1, of a version among all that the line has had here; 0: it is not here, or not the line's. */
export function orderOf(state: OutboxState, line: string, versionId: Hash): number {
  return state.entries.get(versionId)?.orders[line] ?? 0;
}

function inOrder(state: OutboxState, entries: readonly OutboxEntry[]): readonly OutboxEntry[] {
  return [...entries].sort((a, b) =>
    a.line === b.line
      ? orderOf(state, a.line, a.versionId) - orderOf(state, b.line, b.versionId)
      : a.line < b.line
        ? -1
        : 1,
  );
}

export function activeVersion(state: OutboxState, line: string): Hash | undefined {
  return state.lines.get(line)?.activations.at(-1)?.versionId;
}

/** The newest version of a line here, trained or adopted. */
export function newestVersion(state: OutboxState, line: string): OutboxEntry | undefined {
  const id = state.lines.get(line)?.versions.at(-1);
  return id === undefined ? undefined : state.entries.get(id);
}

/** The versions that are still to be announced, base before child: lines by name, each in its order. */
export function toAnnounce(state: OutboxState): readonly OutboxEntry[] {
  return inOrder(
    state,
    [...state.entries.values()].filter((entry) => entry.origin === "trained" && entry.standing === "pending"),
  );
}

/**
 * Recorded versions whose later receipts may have been lost. Announced again, they are answered with the same
 * receipts.
 */
export function awaitingReceipts(state: OutboxState): readonly OutboxEntry[] {
  return inOrder(
    state,
    [...state.entries.values()].filter(
      (entry) => entry.origin === "trained" && (entry.standing === "recorded" || entry.standing === "stored"),
    ),
  );
}

/**
 * Trained versions here that the server has not released. A version that a restore of the server lost and
 * that is deleted here too does not count.
 */
export function unreleased(state: OutboxState): readonly OutboxEntry[] {
  return [...state.entries.values()].filter(
    (entry) => entry.origin === "trained" && entry.standing !== "released",
  );
}

/** Versions from which something starts: a training that was begun, and transfers of what is not released yet. */
function startsOf(state: OutboxState): ReadonlySet<Hash> {
  const kept = [...state.entries.values()];
  // A transfer that may still continue is coded against the version's bases and the bases of those. Without
  // them it would start from scratch.
  const bases = kept.filter((entry) => entry.standing !== "released").flatMap((entry) => entry.bases);
  const begun = [...state.lines.values()].flatMap((line) => line.begun?.job.base ?? []);
  return new Set([...begun, ...bases, ...bases.flatMap((base) => state.entries.get(base)?.bases ?? [])]);
}

/** True if a version is here only because the server staged it for this line, which has not run it since. */
export function isOnlyStaged(state: OutboxState, line: string, versionId: Hash): boolean {
  const entry = state.entries.get(versionId);
  const isStaged = state.lines.get(line)?.staged.includes(versionId) === true;
  return (
    isStaged &&
    entry?.origin === "adopted" &&
    entry.lines.length === 1 &&
    entry.standing === "released" &&
    activeVersion(state, line) !== versionId &&
    !startsOf(state).has(versionId)
  );
}

/**
 * Versions on this device, as the rule of forgetting needs them.
 * @param releasedWhen whether the server's receipt `released` is enough, or a backup is needed too
 */
export function keptVersions(
  state: OutboxState,
  releasedWhen: "stored" | "backed-up",
): readonly KeptVersion[] {
  const kept = [...state.entries.values()];
  // The newest of them alone counts: the server waits for no other one.
  const staged = [...state.lines.values()].flatMap((line) => line.staged.slice(-1));
  const needed = new Set([...startsOf(state), ...staged]);
  return kept.flatMap((entry) =>
    entry.lines.map((line) => ({
      versionId: entry.versionId,
      line,
      sequence: orderOf(state, line, entry.versionId),
      // A server with another history may have lost what it released.
      released:
        entry.standing === "released" &&
        (releasedWhen === "stored" || entry.backedUp) &&
        state.distrust === undefined,
      active: activeVersion(state, line) === entry.versionId,
      needed: needed.has(entry.versionId),
    })),
  );
}

/** Samples that a begun training reads, or that trained models which are not released yet. */
export function pinnedSamples(state: OutboxState, line: string): readonly SampleRange[] {
  const begun = state.lines.get(line)?.begun?.job.samples ?? null;
  const pinned = unreleased(state).flatMap((entry) =>
    entry.line === line && entry.samples !== null ? [entry.samples] : [],
  );
  return begun === null ? pinned : [...pinned, begun];
}

/** Versions that a restore to `position` takes from the server and that this device no longer has. */
export function lostByRestore(state: OutboxState, position: number): readonly KeptReceipt[] {
  return [...state.receipts.values()].filter((receipt) => receipt.position >= position);
}
