/**
 * The state that an agent's journal adds up to: for each version, how far the server has confirmed it; for
 * each line, which version is the newest and which one runs. A pure fold; the journal and the store are
 * elsewhere.
 *
 * Invariants: a version's state only moves forward (pending → recorded → stored → released) unless
 * the server was restored; only a released version is ever forgotten; a line's sequence numbers are
 * 1, 2, 3 … without gaps.
 */
import type { Hash } from "../../shared/tensor/tensor.js";
import type { KeptVersion } from "../resources/disk-budget.js";
import type { AgentFact, BegunJob, Metric, SampleRange } from "./agent-fact.js";

export type Standing = "pending" | "recorded" | "stored" | "released";
const standings: readonly Standing[] = ["pending", "recorded", "stored", "released"];

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
  readonly savedAtMs: number;
  readonly metric: Metric | null;
  readonly samples: SampleRange | null;
  readonly standing: Standing;
  readonly backedUp: boolean;
  /** Its position in the server's journal; undefined before its receipt. */
  readonly position: number | undefined;
  readonly name: string;
  /** The server's counter; undefined before its receipt. */
  readonly version: number | undefined;
  readonly refusal: { readonly code: string; readonly message: string; readonly atMs: number } | undefined;
  readonly forgotten: boolean;
}

export interface Activation {
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
  /** How often it began, without the tries that ended because the agent was stopped in order. */
  readonly tries: number;
  /** The last try ended because the agent was stopped in order. */
  readonly isPaused: boolean;
}

export interface LineState {
  readonly line: string;
  /** Versions in the order in which they arrived here. */
  readonly versions: readonly Hash[];
  readonly sequence: number;
  readonly activations: readonly Activation[];
  readonly trainings: number;
  readonly lastTrainingMs: number | undefined;
  /** One past the newest sample that the last training saw. */
  readonly samplesEnd: number;
  /** Begins again before anything else of the line is trained. */
  readonly begun: BegunTraining | undefined;
}

export interface OutboxState {
  readonly entries: ReadonlyMap<Hash, OutboxEntry>;
  readonly lines: ReadonlyMap<string, LineState>;
  readonly seen: { readonly length: number; readonly chain: Hash } | undefined;
  /** Positions of restores of the server that were handled already. */
  readonly restoredAt: readonly number[];
}

export const emptyOutbox: OutboxState = {
  entries: new Map(),
  lines: new Map(),
  seen: undefined,
  restoredAt: [],
};

function emptyLine(line: string): LineState {
  return {
    line,
    versions: [],
    sequence: 0,
    activations: [],
    trainings: 0,
    lastTrainingMs: undefined,
    samplesEnd: 0,
    begun: undefined,
  };
}

/**
 * The state after one more fact. A receipt, refusal or forgetting of a version that is unknown here changes no
 * version: a journal may mention a version whose own fact it does not contain.
 */
export function applyFact(state: OutboxState, fact: AgentFact): OutboxState {
  switch (fact.type) {
    case "saved":
      return addVersion(
        fact.invocation === undefined
          ? state
          : withBegun(state, { line: fact.line, invocation: fact.invocation }, () => undefined),
        fact,
      );
    case "adopted":
      return addVersion(state, fact);
    case "receipt":
      return noteBackup(
        withEntry(state, fact.versionId, (entry) => ({
          ...entry,
          standing: later(entry.standing, fact.kind),
          position: fact.position,
          name: fact.name || entry.name,
          version: fact.version || entry.version,
          refusal: undefined,
        })),
        fact.backedUpTo,
      );
    case "refused":
      return withEntry(state, fact.versionId, (entry) => ({
        ...entry,
        refusal: { code: fact.code, message: fact.message, atMs: fact.atMs },
      }));
    case "activated":
      return withLine(state, fact.line, (line) => ({
        ...line,
        activations: [
          ...line.activations,
          {
            versionId: fact.versionId,
            line: fact.line,
            atMs: fact.atMs,
            clockErrorMs: fact.clockErrorMs,
            session: fact.session,
          },
        ],
      }));
    case "forgotten":
      return withEntry(state, fact.versionId, (entry) => ({ ...entry, forgotten: true }));
    case "training":
      return withLine(state, fact.line, (line) => ({
        ...line,
        trainings: Math.max(line.trainings, fact.invocation),
        lastTrainingMs: fact.atMs,
        samplesEnd: Math.max(line.samplesEnd, fact.samplesEnd),
        begun: begunBy(fact),
      }));
    case "training-again":
      return withBegun(state, fact, (begun) => ({
        ...begun,
        tries: begun.tries + (begun.isPaused ? 0 : 1),
        isPaused: false,
      }));
    case "training-paused":
      return withBegun(state, fact, (begun) => ({ ...begun, isPaused: true }));
    case "training-failed":
      return withBegun(state, fact, () => undefined);
    case "seen":
      return { ...state, seen: { length: fact.length, chain: fact.chain } };
    case "restored":
      return afterRestore(state, fact.position);
  }
}

export function foldFacts(facts: Iterable<AgentFact>, from: OutboxState = emptyOutbox): OutboxState {
  let state = from;
  for (const fact of facts) state = applyFact(state, fact);
  return state;
}

function later(a: Standing, b: Standing): Standing {
  return standings.indexOf(a) >= standings.indexOf(b) ? a : b;
}

function addVersion(
  state: OutboxState,
  fact: Extract<AgentFact, { type: "saved" | "adopted" }>,
): OutboxState {
  const known = state.entries.get(fact.versionId);
  if (known?.forgotten === false && known.lines.includes(fact.line)) return state;
  if (known?.forgotten === false)
    return withLine(
      withEntry(state, fact.versionId, (entry) => ({ ...entry, lines: [...entry.lines, fact.line] })),
      fact.line,
      (line) => ({ ...line, versions: [...line.versions, fact.versionId] }),
    );
  const common = {
    versionId: fact.versionId,
    line: fact.line,
    lines: [fact.line],
    tensorBytes: fact.tensorBytes,
    savedAtMs: fact.atMs,
    name: fact.name,
    refusal: undefined,
    forgotten: false,
    position: undefined,
  };
  const entry: OutboxEntry =
    fact.type === "saved"
      ? {
          ...common,
          origin: "trained",
          sequence: fact.sequence,
          bases: fact.bases,
          metric: fact.metric,
          samples: fact.samples,
          standing: "pending",
          backedUp: false,
          version: undefined,
        }
      : {
          ...common,
          origin: "adopted",
          sequence: 0,
          bases: [],
          metric: null,
          samples: null,
          standing: "released",
          backedUp: true,
          version: fact.version,
        };
  return withLine(
    { ...state, entries: new Map(state.entries).set(fact.versionId, entry) },
    fact.line,
    (before) => ({
      ...before,
      versions: [...before.versions, fact.versionId],
      sequence: fact.type === "saved" ? Math.max(before.sequence, fact.sequence) : before.sequence,
    }),
  );
}

/**
 * A receipt states up to which position of the server's journal a backup exists: this holds for every version
 * before it.
 */
function noteBackup(state: OutboxState, backedUpTo: number): OutboxState {
  const fresh = [...state.entries.values()].filter(
    (entry) => !entry.backedUp && entry.position !== undefined && entry.position < backedUpTo,
  );
  if (fresh.length === 0) return state;
  const entries = new Map(state.entries);
  for (const entry of fresh) entries.set(entry.versionId, { ...entry, backedUp: true });
  return { ...state, entries };
}

/**
 * Everything recorded from `position` on counts as never received. A version that is forgotten already cannot
 * be announced again.
 */
function afterRestore(state: OutboxState, position: number): OutboxState {
  const entries = new Map(state.entries);
  for (const entry of entries.values()) {
    if (entry.origin === "trained" && entry.position !== undefined && entry.position >= position)
      entries.set(entry.versionId, {
        ...entry,
        standing: "pending",
        backedUp: false,
        position: undefined,
        version: undefined,
      });
  }
  return { ...state, entries, seen: undefined, restoredAt: [...state.restoredAt, position] };
}

function withEntry(
  state: OutboxState,
  versionId: Hash,
  change: (entry: OutboxEntry) => OutboxEntry,
): OutboxState {
  const entry = state.entries.get(versionId);
  return entry === undefined
    ? state
    : { ...state, entries: new Map(state.entries).set(versionId, change(entry)) };
}

function begunBy(fact: Extract<AgentFact, { type: "training" }>): BegunTraining | undefined {
  const { invocation, because, job } = fact;
  return job === undefined ? undefined : { invocation, because, job, tries: 1, isPaused: false };
}

/** Changes the begun training of a line, where it is still the one of that invocation. */
function withBegun(
  state: OutboxState,
  { line: name, invocation }: { readonly line: string; readonly invocation: number },
  change: (begun: BegunTraining) => BegunTraining | undefined,
): OutboxState {
  return withLine(state, name, (line) =>
    line.begun?.invocation === invocation ? { ...line, begun: change(line.begun) } : line,
  );
}

function withLine(state: OutboxState, name: string, change: (line: LineState) => LineState): OutboxState {
  return {
    ...state,
    lines: new Map(state.lines).set(name, change(state.lines.get(name) ?? emptyLine(name))),
  };
}

// Queries.

/**
 * Position, from 1, of a version among all that the line has had here, trained or adopted; 0: it never had
 * it.
 */
export function orderOf(state: OutboxState, line: string, versionId: Hash): number {
  return (state.lines.get(line)?.versions.lastIndexOf(versionId) ?? -1) + 1;
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
    [...state.entries.values()].filter(
      (entry) => entry.origin === "trained" && entry.standing === "pending" && !entry.forgotten,
    ),
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
      (entry) =>
        entry.origin === "trained" &&
        (entry.standing === "recorded" || entry.standing === "stored") &&
        !entry.forgotten,
    ),
  );
}

/**
 * Trained versions here that the server has not released. A version that a restore of the server lost and
 * that is deleted here too does not count.
 */
export function unreleased(state: OutboxState): readonly OutboxEntry[] {
  return [...state.entries.values()].filter(
    (entry) => entry.origin === "trained" && entry.standing !== "released" && !entry.forgotten,
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
  const kept = [...state.entries.values()].filter((entry) => !entry.forgotten);
  // A transfer that may still continue is coded against the version's bases and the bases of those. Without
  // them it would start from scratch.
  const bases = kept.filter((entry) => entry.standing !== "released").flatMap((entry) => entry.bases);
  const begun = [...state.lines.values()].flatMap((line) => line.begun?.job.base ?? []);
  const neededBases = new Set([
    ...begun,
    ...bases,
    ...bases.flatMap((base) => state.entries.get(base)?.bases ?? []),
  ]);
  return kept.flatMap((entry) =>
    entry.lines.map((line) => ({
      versionId: entry.versionId,
      line,
      sequence: orderOf(state, line, entry.versionId),
      released: entry.standing === "released" && (releasedWhen === "stored" || entry.backedUp),
      active: activeVersion(state, line) === entry.versionId,
      needed: neededBases.has(entry.versionId),
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
export function lostByRestore(state: OutboxState, position: number): readonly OutboxEntry[] {
  return [...state.entries.values()].filter(
    (entry) =>
      entry.origin === "trained" &&
      entry.position !== undefined &&
      entry.position >= position &&
      entry.forgotten,
  );
}
