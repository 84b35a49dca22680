/**
 * Applies the facts of an agent's journal to its state, in place: a fact costs the same however many versions came
 * before it. The state itself and its queries are in outbox-state.ts. Pure; the journal and the store are
 * elsewhere.
 */
import { defined } from "../../shared/defined.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { isFurther, type SavedProgress } from "../../shared/train/saved-progress.js";
import type { AgentFact, AgentFactOf, CompactedPart } from "./agent-fact.js";
import { entryOf } from "./outbox-entry.js";
import type {
  Activation,
  BegunTraining,
  Distrust,
  KeptReceipt,
  LineState,
  OutboxEntry,
  OutboxState,
  SeenHead,
  Standing,
} from "./outbox-state.js";

const standings: readonly Standing[] = ["pending", "recorded", "stored", "released"];

/**
 * Activations of a line that stay when older ones are dropped. The server knows the dropped ones: their versions
 * are recorded there, so a session was open after them and reported them.
 */
const keptActivations = 1024;

/** Restores that are remembered, and losses that are listed. */
const maxKnownRestores = 1024;
const maxLost = 1000;

type OutboxRest = Pick<OutboxState, "backedUpTo" | "seen" | "server" | "knownRestores" | "distrust" | "lost">;

export function restOf(state: OutboxState): OutboxRest {
  const { backedUpTo, seen, server, knownRestores, distrust, lost } = state;
  return { backedUpTo, seen, server, knownRestores, distrust, lost };
}

/** A head with a root; earlier releases wrote none, and nothing can be proven from their heads. */
function headOf({ length, chain, root }: Partial<SeenHead>): SeenHead | undefined {
  return length === undefined || chain === undefined || root === undefined
    ? undefined
    : { length, chain, root };
}

export const emptyOutbox: OutboxState = {
  entries: new Map(),
  lines: new Map(),
  receipts: new Map(),
  backedUpTo: 0,
  seen: undefined,
  server: undefined,
  knownRestores: [],
  distrust: undefined,
  lost: [],
};

type MutableLine = { -readonly [Key in keyof LineState]: LineState[Key] } & {
  versions: Hash[];
  staged: Hash[];
  activations: Activation[];
};

export class OutboxFold {
  readonly #entries: Map<Hash, OutboxEntry>;
  readonly #lines: Map<string, MutableLine>;
  readonly #receipts: Map<Hash, KeptReceipt>;
  #rest: OutboxRest;

  constructor(from: OutboxState = emptyOutbox) {
    this.#entries = new Map(from.entries);
    this.#lines = new Map(
      [...from.lines].map(([name, line]) => [
        name,
        {
          ...line,
          versions: [...line.versions],
          staged: [...line.staged],
          activations: [...line.activations],
        },
      ]),
    );
    this.#receipts = new Map(from.receipts);
    this.#rest = restOf(from);
  }

  /** The state now. Its maps and lists change with the facts that are applied later. */
  get state(): OutboxState {
    return { entries: this.#entries, lines: this.#lines, receipts: this.#receipts, ...this.#rest };
  }

  /**
   * Applies one fact. A receipt, refusal or forgetting of a version that is unknown here changes no version: a
   * journal may mention a version whose own fact it does not contain.
   */
  apply(fact: AgentFact): void {
    switch (fact.type) {
      case "saved":
        this.#addSaved(fact);
        break;
      case "adopted":
        this.#addVersion(fact);
        break;
      case "receipt":
        this.#addReceipt(fact);
        break;
      case "refused": {
        const { code, message, atMs } = fact;
        this.#change(fact.versionId, (entry) => ({ ...entry, refusal: { code, message, atMs } }));
        break;
      }
      case "activated":
        this.#addActivation(fact);
        break;
      case "forgotten":
        this.#forget(fact.versionId);
        break;
      case "training":
      case "training-again":
      case "training-paused":
      case "training-failed":
        this.#applyTraining(fact);
        break;
      case "seen":
        this.#see(fact, fact.restores);
        this.#rest = { ...this.#rest, server: fact.server };
        break;
      case "server":
        this.#rest = { ...this.#rest, server: fact.publicKey };
        break;
      case "distrusted":
        this.#rest = { ...this.#rest, distrust: distrustOf(fact) };
        break;
      case "restored":
        this.#restore(fact.position);
        break;
      case "compacted":
        this.#addCompacted(fact.part);
    }
  }

  #line(name: string): MutableLine {
    const known = this.#lines.get(name);
    if (known !== undefined) return known;
    const line = emptyLine(name);
    this.#lines.set(name, line);
    return line;
  }

  #change(versionId: Hash, change: (entry: OutboxEntry) => OutboxEntry): void {
    const entry = this.#entries.get(versionId);
    if (entry !== undefined) this.#entries.set(versionId, change(entry));
  }

  #addSaved(fact: AgentFactOf<"saved">): void {
    const line = this.#line(fact.line);
    const { begun } = line;
    const isOfBegun = begun !== undefined && fact.invocation === begun.invocation;
    if (isOfBegun) line.begun = undefined;
    this.#addVersion(fact);
    if (isOfBegun && begun.isSuperseded === true) line.newestRun = line.arrivals;
  }

  #addVersion(fact: AgentFactOf<"saved" | "adopted">): void {
    const known = this.#entries.get(fact.versionId);
    if (known?.lines.includes(fact.line) === true) return;
    const line = this.#line(fact.line);
    line.versions.push(fact.versionId);
    line.arrivals++;
    if (fact.type === "saved") line.sequence = Math.max(line.sequence, fact.sequence);
    else if (fact.staged === true) line.staged.push(fact.versionId);
    const entry = known ?? entryOf(fact);
    const pipeline = fact.type === "adopted" ? fact.pipeline : undefined;
    this.#entries.set(fact.versionId, {
      ...entry,
      ...defined({ pipeline }),
      lines: [...entry.lines, fact.line],
      orders: { ...entry.orders, [fact.line]: line.arrivals },
    });
    this.#receipts.delete(fact.versionId);
  }

  #addReceipt(fact: AgentFactOf<"receipt">): void {
    const { kind, position, name, version, claim, atMs } = fact;
    this.#change(fact.versionId, (entry) => {
      // A late answer of the time before its tensors were at the server.
      if (claim === true && entry.position !== undefined && entry.position > position) return entry;
      return {
        ...entry,
        standing: later(entry.standing, kind),
        claimedAtMs: claim === true ? (entry.claimedAtMs ?? atMs) : undefined,
        position,
        name: name || entry.name,
        version: version || entry.version,
        refusal: undefined,
        backedUp: claim !== true && (entry.backedUp || position < this.#rest.backedUpTo),
      };
    });
    this.#noteBackup(fact.backedUpTo);
    if (fact.head !== undefined) this.#see(fact.head);
  }

  #see(head: Partial<SeenHead>, restores: readonly Hash[] = []): void {
    const knownRestores = [...this.#rest.knownRestores, ...restores].slice(-maxKnownRestores);
    this.#rest = { ...this.#rest, seen: headOf(head), knownRestores, distrust: undefined };
  }

  /** A receipt states up to where a backup exists: this holds for every version before it. */
  #noteBackup(backedUpTo: number): void {
    if (backedUpTo <= this.#rest.backedUpTo) return;
    this.#rest = { ...this.#rest, backedUpTo };
    for (const entry of this.#entries.values())
      if (
        !entry.backedUp &&
        entry.claimedAtMs === undefined &&
        entry.position !== undefined &&
        entry.position < backedUpTo
      )
        this.#entries.set(entry.versionId, { ...entry, backedUp: true });
    for (const { versionId, position } of this.#receipts.values())
      if (position < backedUpTo) this.#receipts.delete(versionId);
  }

  #addActivation({
    versionId,
    line: name,
    atMs,
    clockErrorMs,
    session,
    chosen,
  }: AgentFactOf<"activated">): void {
    const line = this.#line(name);
    if (chosen === true) {
      line.newestRun = line.arrivals;
      if (line.begun !== undefined) line.begun = { ...line.begun, isSuperseded: true };
    }
    const number = nextNumber(line);
    line.activations.push({ number, versionId, line: name, atMs, clockErrorMs, session });
    line.staged = line.staged.filter((staged) => staged !== versionId);
    line.newestRun = Math.max(line.newestRun, this.#entries.get(versionId)?.orders[name] ?? 0);
    if (line.activations.length < 2 * keptActivations) return;
    const firstPending = line.activations.findIndex(
      (one) => this.#entries.get(one.versionId)?.standing === "pending",
    );
    const surplus = line.activations.length - keptActivations;
    line.activations.splice(0, firstPending < 0 ? surplus : Math.min(surplus, firstPending));
  }

  /** Forgets a version; what names a trained one stays until a backup covers it. */
  #forget(versionId: Hash): void {
    const entry = this.#entries.get(versionId);
    if (entry === undefined) return;
    this.#entries.delete(versionId);
    for (const name of entry.lines) {
      const line = this.#line(name);
      const at = line.versions.indexOf(versionId);
      if (at >= 0) line.versions.splice(at, 1);
      line.staged = line.staged.filter((staged) => staged !== versionId);
    }
    const { line, sequence, name, version, position } = entry;
    if (entry.origin === "trained" && position !== undefined && !entry.backedUp)
      this.#receipts.set(versionId, { versionId, line, sequence, name, version, position });
  }

  #applyTraining(
    fact: AgentFactOf<"training" | "training-again" | "training-paused" | "training-failed">,
  ): void {
    if (fact.type === "training") {
      const line = this.#line(fact.line);
      line.trainings = Math.max(line.trainings, fact.invocation);
      line.lastTrainingMs = fact.atMs;
      line.samplesEnd = Math.max(line.samplesEnd, fact.samplesEnd);
      line.begun = begunBy(fact, line.activations.at(-1)?.versionId);
    } else
      this.#changeBegun(fact, (begun) =>
        fact.type === "training-failed"
          ? undefined
          : fact.type === "training-paused"
            ? { ...begun, isPaused: true }
            : goneOn(begun, { iteration: fact.iteration ?? 0, pass: fact.pass }),
      );
  }

  /** Changes the begun training of a line, where it is still the one of that invocation. */
  #changeBegun(
    { line: name, invocation }: { readonly line: string; readonly invocation: number },
    change: (begun: BegunTraining) => BegunTraining | undefined,
  ): void {
    const line = this.#line(name);
    if (line.begun?.invocation === invocation) line.begun = change(line.begun);
  }

  /**
   * Counts everything recorded from `position` on as never received. A version that is forgotten already
   * cannot be announced again.
   */
  #restore(position: number): void {
    for (const entry of this.#entries.values())
      if (entry.origin === "trained" && entry.position !== undefined && entry.position >= position)
        this.#entries.set(entry.versionId, {
          ...entry,
          standing: "pending",
          claimedAtMs: undefined,
          backedUp: false,
          position: undefined,
          version: undefined,
        });
    const lost = [...this.#receipts.values()].filter((receipt) => receipt.position >= position);
    for (const { versionId } of lost) this.#receipts.delete(versionId);
    this.#rest = {
      ...this.#rest,
      backedUpTo: Math.min(this.#rest.backedUpTo, position),
      seen: undefined,
      distrust: undefined,
      lost: [...this.#rest.lost, ...lost].slice(-maxLost),
    };
  }

  /** Takes over a part of the state that a compaction wrote. */
  #addCompacted(part: CompactedPart): void {
    // JSON leaves out members that are undefined; a state has all of them.
    if (part.outbox !== undefined) {
      const { backedUpTo, seen, server, knownRestores = [], distrust, lost = [] } = part.outbox;
      this.#rest = { backedUpTo, seen: headOf(seen ?? {}), server, knownRestores, distrust, lost };
    }
    if (part.line !== undefined)
      this.#lines.set(part.line.line, {
        ...emptyLine(part.line.line),
        ...part.line,
        staged: [...(part.line.staged ?? [])],
      });
    if (part.version !== undefined) {
      const { version: entry } = part;
      this.#entries.set(entry.versionId, {
        ...entry,
        claimedAtMs: entry.claimedAtMs,
        position: entry.position,
        version: entry.version,
        refusal: entry.refusal,
      });
      for (const name of entry.lines) this.#insert(this.#line(name).versions, name, entry);
    }
    for (const activation of part.activations ?? []) {
      const line = this.#line(activation.line);
      line.activations.push({ number: nextNumber(line), ...activation });
    }
    for (const receipt of part.receipts ?? [])
      this.#receipts.set(receipt.versionId, { ...receipt, version: receipt.version });
  }

  /** Inserts a version by its order; compactions write versions nearly in order. */
  #insert(versions: Hash[], line: string, { versionId, orders }: OutboxEntry): void {
    const order = orders[line] ?? 0;
    let at = versions.length;
    while (at > 0 && (this.#entries.get(versions[at - 1] as Hash)?.orders[line] ?? 0) > order) at--;
    versions.splice(at, 0, versionId);
  }
}

function distrustOf({ text, atMs, unsigned }: AgentFactOf<"distrusted">): Distrust {
  return { text, atMs, ...(unsigned && { unsigned }) };
}

/** The number of the next activation of a line: the newest one is never dropped. */
function nextNumber({ activations }: Pick<MutableLine, "activations">): number {
  return (activations.at(-1)?.number ?? 0) + 1;
}

function emptyLine(line: string): MutableLine {
  return {
    line,
    versions: [],
    staged: [],
    arrivals: 0,
    newestRun: 0,
    sequence: 0,
    activations: [],
    trainings: 0,
    lastTrainingMs: undefined,
    samplesEnd: 0,
    begun: undefined,
  };
}

function later(a: Standing, b: Standing): Standing {
  return standings.indexOf(a) >= standings.indexOf(b) ? a : b;
}

/**
 * A training of a line that has begun and has not ended.
 * @param active what the line runs: another version may have been chosen since the base was
 */
function begunBy(
  { invocation, because, job }: AgentFactOf<"training">,
  active: Hash | undefined,
): BegunTraining | undefined {
  if (job === undefined) return undefined;
  const isSuperseded = active !== undefined && active !== job.base;
  return {
    invocation,
    because,
    job,
    tries: 1,
    isPaused: false,
    ...(isSuperseded ? { isSuperseded } : {}),
  };
}

/** A training that began once more; a state that goes further than the one before is progress. */
function goneOn(begun: BegunTraining, saved: SavedProgress): BegunTraining {
  const isProgress = isFurther(saved, { iteration: begun.iteration ?? 0, pass: begun.pass });
  return {
    ...begun,
    ...(saved.iteration > (begun.iteration ?? 0) ? { iteration: saved.iteration } : {}),
    ...(isProgress && saved.pass !== undefined ? { pass: saved.pass } : {}),
    tries: isProgress ? 1 : begun.tries + (begun.isPaused ? 0 : 1),
    isPaused: false,
  };
}
