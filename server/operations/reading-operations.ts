/**
 * The operations of a home on this machine as a command uses them: those that only read do so without the home's lock,
 * beside a server or command that has it, and on a disk that is full or cannot be written. Whatever else is asked for
 * opens the home with the lock, which may have to be waited for; so does, beside another process, what only a running
 * server knows.
 */
import { isStemmaError, StemmaError } from "../../shared/errors.js";
import { nodeFiles } from "../../shared/files/node-files.js";
import { holderOf } from "../../shared/files/home-holder.js";
import { needsToWrite } from "../../shared/files/reading-files.js";
import { callNames, otherOperations } from "../interface/api/operation-groups.js";
import type { DataStream, RecoveryStream, ServerOperations } from "../interface/api/server-operations.js";
import { hasHome } from "../storage/repository/home.js";
import type { HomeChanges } from "../storage/repository/home-changes.js";
import { openHomeForReading, type OpenedHome } from "./local-operations.js";

type OperationName = Exclude<keyof ServerOperations, "events" | "close">;
type Operate = (...given: readonly unknown[]) => Promise<unknown>;

/** Operations that change nothing. One that finds something to write, such as a dropped tensor, takes the lock. */
export const readingOperations: ReadonlySet<OperationName> = new Set<OperationName>([
  ...(["health", "fleets", "knownDamage", "stats", "check", "planCollection"] as const),
  ...(["journal", "journalHead", "journalEntries", "proveFact", "story"] as const),
  ...(["devices", "device", "addresses", "batches", "authorities"] as const),
  ...(["rollouts", "rollout", "rolloutReport", "releases", "releaseManifest"] as const),
  ...(["models", "listModels", "model", "log", "diff", "asOf", "modelJson", "attachment", "owners"] as const),
  ...([
    "lineage",
    "descendants",
    "commonAncestor",
    "successors",
    "verify",
    "nearest",
    "runQuery",
    "savedQueries",
  ] as const),
  ...(["describeBundle", "bundleObjects", "proveBundle", "searchHub"] as const),
  ...(["recover", "explainRecovery", "evaluations", "evaluation"] as const),
  ...(["datasets", "showDataset", "fetchDataset", "engines", "recipes"] as const),
  ...(["retention", "forecastRetention", "dropPolicies", "tiers", "tokens", "webhooks"] as const),
]);

/** Operations that also tell what a running server alone knows: who is connected, and what it waits for. */
const liveOperations: ReadonlySet<OperationName> = new Set<OperationName>([
  ...(["health", "fleets", "devices", "device", "rollouts", "rollout", "webhooks"] as const),
]);

/** Readings of a home that changes each time; then the home is opened with its lock. */
const maxReadings = 20;

export interface ReadingOptions {
  readonly home: string;
  /** Opens the home with its lock, or connects to a server that has it meanwhile. */
  readonly openToWrite: () => Promise<ServerOperations>;
  /** Told once, before the first answer, which other process has the home that is read. */
  readonly onBeside: (holder: string) => void;
}

/** A home that is not there is left to `openToWrite`. */
export async function openReadingOperations(options: ReadingOptions): Promise<ServerOperations> {
  if (!(await hasHome(nodeFiles(), options.home))) return options.openToWrite();
  const home = new ReadHome(options);
  const operation =
    (name: OperationName): Operate =>
    (...given) =>
      home.operate(name, given);
  const names: readonly OperationName[] = [...callNames, ...otherOperations];
  return {
    // Object.fromEntries loses the type of the names; there is one method for every operation.
    ...(Object.fromEntries(names.map((name) => [name, operation(name)])) as unknown as ServerOperations),
    events: (signal: AbortSignal) => eventsOf(home, signal),
    close: () => home.close(),
  };
}

async function* eventsOf(home: ReadHome, signal: AbortSignal): ReturnType<ServerOperations["events"]> {
  yield* (await home.toWrite()).events(signal);
}

class ReadHome {
  #reading: Promise<OpenedHome> | undefined;
  #writing: Promise<ServerOperations> | undefined;
  /** Readings that others took the place of: a stream of theirs may still be read. */
  readonly #earlier: OpenedHome[] = [];
  /** Describes the process that has the home; looked up once. */
  #holder: Promise<string | undefined> | undefined;
  #isBesideTold = false;

  constructor(private readonly options: ReadingOptions) {}

  async operate(name: OperationName, given: readonly unknown[]): Promise<unknown> {
    if (this.#writing === undefined && readingOperations.has(name)) {
      const read = await this.#read(name, given);
      if (read !== undefined) return read.answer;
    }
    return await methodOf(await this.toWrite(), name)(...given);
  }

  toWrite(): Promise<ServerOperations> {
    return (this.#writing ??= this.options.openToWrite());
  }

  /** Returns the answer; undefined where the lock is needed for it. */
  async #read(
    name: OperationName,
    given: readonly unknown[],
  ): Promise<{ readonly answer: unknown } | undefined> {
    const holder = await (this.#holder ??= holderOf(this.options.home));
    if (holder !== undefined && liveOperations.has(name)) return undefined;
    for (let reading = 1; reading <= maxReadings; reading++) {
      const opened = await this.#open();
      if (opened === undefined) return undefined;
      if (holder !== undefined && !this.#isBesideTold) this.options.onBeside(holder);
      this.#isBesideTold = true;
      const { changes } = opened;
      try {
        const answer = await methodOf(opened.operations, name)(...given);
        // What is missing may have been merged or collected while this read.
        const isWhole = !opened.isDamaged() && !findsProblems(answer);
        const isOfIndex = await opened.hasFailed();
        if (!isOfIndex && (isWhole || !(await changes.areThere())))
          return { answer: whileRead(name, answer, changes) };
      } catch (error) {
        if (needsToWrite(error)) return undefined;
        // An index that was found damaged is left out by the next opening.
        if (!(await opened.hasFailed()) && !(await changes.areThere())) throw error;
      }
      // Another operation of the command may have noticed it first.
      if (!this.#earlier.includes(opened)) {
        this.#earlier.push(opened);
        this.#reading = undefined;
      }
    }
    return undefined;
  }

  async #open(): Promise<OpenedHome | undefined> {
    this.#reading ??= openHomeForReading(this.options.home);
    try {
      return await this.#reading;
    } catch (error) {
      this.#reading = undefined;
      // A home that is being made has no key yet.
      if (needsToWrite(error) || isStemmaError(error, "FILE_MISSING")) return undefined;
      throw error;
    }
  }

  async close(): Promise<void> {
    const reading = await this.#reading?.catch(() => undefined);
    for (const opened of [...this.#earlier, ...(reading === undefined ? [] : [reading])])
      await opened.operations.close();
    await (await this.#writing?.catch(() => undefined))?.close();
  }
}

function methodOf(operations: ServerOperations, name: OperationName): Operate {
  return (...given) => (operations as unknown as Readonly<Record<OperationName, Operate>>)[name](...given);
}

/** True if an answer is that of a check that found problems. */
function findsProblems(answer: unknown): boolean {
  const { problems } = (answer ?? {}) as { readonly problems?: unknown };
  return Array.isArray(problems) && problems.length > 0;
}

/** A stream that fails after the home has changed says so, and not that something is damaged. */
function whileRead(name: OperationName, answer: unknown, changes: HomeChanges): unknown {
  if (name !== "recover" && name !== "fetchDataset") return answer;
  const stream = answer as RecoveryStream | DataStream;
  const errorFrom = async (cause: unknown): Promise<unknown> =>
    (await changes.areThere().catch(() => false))
      ? new StemmaError(
          "HOME_CHANGED",
          "Another process changed the home while this read it, and removed what was still to be read. Run the command again.",
          { cause },
        )
      : cause;
  const report = (stream.report as Promise<unknown>).catch(async (error: unknown) => {
    throw await errorFrom(error);
  });
  report.catch(() => undefined); // its reader may come later, or never
  return {
    ...stream,
    report,
    chunks: (async function* () {
      try {
        yield* stream.chunks;
      } catch (error) {
        throw await errorFrom(error);
      }
    })(),
  };
}
