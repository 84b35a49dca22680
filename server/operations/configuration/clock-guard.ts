/**
 * Keeps a server from signing by a clock that jumped: while it is in doubt the server's key is held back, so that no
 * device is served and no fact recorded. The last time that was trusted is kept in the home (`clock.json`), and so is a
 * doubt, which a restart does not end: facts may have been recorded by the wrong clock, and a quiet fleet records none.
 */
import { join } from "node:path";
import * as z from "zod";
import { messageOf } from "../../../shared/error-text.js";
import { StemmaError } from "../../../shared/errors.js";
import { writeDurably } from "../../../shared/files/durable-write.js";
import type { Clock, Files, Log } from "../../../shared/ports.js";
import { parseJson } from "../../../shared/trust/keys.js";
import {
  judgeClock,
  type ClockDoubt,
  type ClockReading,
  type ClockStart,
} from "../../access/identity/clock-judgement.js";
import type { HoldableKey } from "../../access/identity/server-key-hold.js";
import type { HomePorts } from "../../storage/repository/home.js";

const doubtSchema = z.strictObject({ shownMs: z.number().min(0), expectedMs: z.number().min(0) });
const fileSchema = z.strictObject({
  format: z.literal(1),
  trustedMs: z.number().min(0),
  doubt: doubtSchema.optional(),
});
type ClockFile = z.infer<typeof fileSchema>;
const checkMs = 60_000;
/** The trusted time is kept again after so long. */
const keepMs = 86_400_000;
/** Milliseconds for which the machine's running time is counted on: asking for it takes longer than a signature. */
const countedOnMs = 1000;

export interface ClockGuardParts {
  readonly home: {
    readonly path: string;
    readonly ports: HomePorts;
    /** Held back while the clock is in doubt. */
    readonly signer: Pick<HoldableKey, "holdWhile">;
  };
  /** The newest time of a fact, where no trusted time was kept; 0: there is none. */
  newestFactMs(): Promise<number>;
  readonly accept: boolean;
  readonly log: Pick<Log, "info" | "warn" | "error">;
}

export class ClockGuard {
  #start: ClockStart;
  /** The time since the machine's start when it was asked for last, and the process's own clock then. */
  #asked: { readonly sinceBootMs: number; readonly atMs: number } | undefined;
  /** The doubt that the log has told. */
  #told: ClockDoubt | undefined;
  #kept: ClockFile | undefined;
  #cancel: () => void = () => undefined;
  #whenDoubted: () => void = () => undefined;

  private constructor(
    private readonly parts: ClockGuardParts,
    known: Pick<ClockStart, "knownMs" | "earlier">,
  ) {
    this.#start = { ...readingOf(parts.home.ports), ...known };
  }

  static async open(parts: ClockGuardParts): Promise<ClockGuard> {
    const { home, accept } = parts;
    const kept = await readKept(home.ports.files, home.path);
    const known = kept?.trustedMs ?? (await parts.newestFactMs());
    const guard = new ClockGuard(
      parts,
      accept ? { knownMs: undefined } : { knownMs: known === 0 ? undefined : known, earlier: kept?.doubt },
    );
    home.signer.holdWhile(() => guard.#whyHeld());
    await guard.#check();
    guard.#repeat();
    return guard;
  }

  /** @param work called when the clock is found in doubt, within a minute of the jump */
  whenDoubted(work: () => void): void {
    this.#whenDoubted = work;
  }

  /** @throws CLOCK_NOT_TRUSTED */
  requireTrusted(): void {
    const why = this.#whyHeld();
    if (why !== undefined) throw why;
  }

  /** The reason why the clock is not trusted; undefined: it is. */
  get doubt(): ClockDoubt | undefined {
    let now = this.#readCounted();
    let doubt = judgeClock(this.#start, now);
    if (doubt !== undefined) {
      // The machine may have slept since, which the process's own clock does not count.
      now = this.#read();
      doubt = judgeClock(this.#start, now);
    }
    // A clock that was wrong at the start and was set right since is judged by what it shows from now on.
    if (doubt === undefined && judgeClock(this.#start, this.#start) !== undefined)
      this.#start = { ...now, knownMs: this.#start.knownMs };
    return doubt;
  }

  /** The problem that health checks state. */
  get problems(): readonly { readonly code: "CLOCK_NOT_TRUSTED"; readonly message: string }[] {
    const why = this.#whyHeld();
    return why === undefined ? [] : [{ code: "CLOCK_NOT_TRUSTED", message: why.message }];
  }

  close(): void {
    this.#cancel();
  }

  #read(): ClockReading {
    const { clock } = this.parts.home.ports;
    const now = readingOf(this.parts.home.ports);
    this.#asked = { sinceBootMs: now.monotonicMs, atMs: clock.monotonic() };
    return now;
  }

  /** A reading whose time since the machine's start is counted on from the last time that it was asked for. */
  #readCounted(): ClockReading {
    const { clock } = this.parts.home.ports;
    const passedMs = clock.monotonic() - (this.#asked?.atMs ?? -Infinity);
    if (this.#asked === undefined || passedMs > countedOnMs) return this.#read();
    return { wallMs: clock.now(), monotonicMs: this.#asked.sinceBootMs + passedMs };
  }

  get #clock(): Clock {
    return this.parts.home.ports.clock;
  }

  #whyHeld(): StemmaError | undefined {
    const { doubt } = this;
    return doubt && doubtful(doubt, this.#clock.now());
  }

  #repeat(): void {
    this.#cancel = this.#clock.after(checkMs, () => {
      void this.#check()
        .catch((error: unknown) => {
          this.parts.log.error("clock-not-kept", { text: messageOf(error) });
        })
        .finally(() => {
          this.#repeat();
        });
    });
  }

  async #check(): Promise<void> {
    const { log } = this.parts;
    const before = this.#told;
    const doubt = (this.#told = this.doubt);
    const nowMs = this.#clock.now();
    if (doubt !== undefined) {
      if (before !== undefined) return;
      log.error("clock-not-trusted", { text: doubtful(doubt, nowMs).message });
      this.#whenDoubted();
      // The others are found again at each start.
      if (doubt.why !== "apart") return;
      const trustedMs = this.#kept?.trustedMs ?? this.#start.knownMs ?? doubt.expectedMs;
      const { expectedMs } = doubt;
      await this.#keep({ format: 1, trustedMs, doubt: { shownMs: nowMs, expectedMs } });
      return;
    }
    if (before !== undefined)
      log.info("clock-trusted", { text: "the clock is right again; devices are served again" });
    const isFresh = this.#kept !== undefined && Math.abs(nowMs - this.#kept.trustedMs) < keepMs;
    if (isFresh && this.#kept?.doubt === undefined) return;
    await this.#keep({ format: 1, trustedMs: nowMs });
  }

  async #keep(file: ClockFile): Promise<void> {
    const { path, ports } = this.parts.home;
    await writeDurably(ports.files, pathIn(path), Buffer.from(`${JSON.stringify(file)}\n`));
    this.#kept = file;
  }
}

function readingOf({ clock, sinceBootMs }: HomePorts): ClockReading {
  return { wallMs: clock.now(), monotonicMs: sinceBootMs?.() ?? clock.monotonic() };
}

const pathIn = (home: string): string => join(home, "clock.json");

/** Returns why a server of this home would not trust the clock if it started now; undefined: it would. */
export async function whyNotClock(
  files: Files,
  home: string,
  nowMs: number,
): Promise<StemmaError | undefined> {
  const kept = await readKept(files, home);
  const now = { wallMs: nowMs, monotonicMs: 0 };
  const doubt = judgeClock({ ...now, knownMs: kept?.trustedMs, earlier: kept?.doubt }, now);
  return doubt && doubtful(doubt, nowMs);
}

async function readKept(files: Files, path: string): Promise<ClockFile | undefined> {
  if ((await files.stat(pathIn(path))) === undefined) return undefined;
  return fileSchema.safeParse(parseJson(await files.read(pathIn(path)))).data;
}

/** The error, and what the log and `doctor` say. */
function doubtful({ why, expectedMs }: ClockDoubt, nowMs: number): StemmaError {
  const [shown, expected] = [nowMs, expectedMs].map((ms) => new Date(ms).toISOString()) as [string, string];
  const what: Record<ClockDoubt["why"], string> = {
    apart: `shows ${shown}, and by the time that has passed since the server started it should be ${expected}`,
    ahead: `shows ${shown}, more than 30 days past ${expected}, the latest time that this server knows`,
    earlier: `shows ${shown}; an earlier start of this server found it wrong, and nobody has mended or accepted it since`,
  };
  return new StemmaError(
    "CLOCK_NOT_TRUSTED",
    `The clock of this machine ${what[why]}. The server signs nothing by it: it serves no device, records nothing and gives no certificate; what it has can be read. Set the clock right (\`date -u\`, time synchronisation). If it is right, start the server again with --accept-clock.`,
    { shown, expected },
  );
}
