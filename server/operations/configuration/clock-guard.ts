/**
 * Keeps a server from giving certificates by a clock that jumped. The last time that was trusted is kept in the home
 * (`clock.json`): facts may have been recorded by the wrong clock since, and a quiet fleet records none for long.
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
import type { HomePorts } from "../../storage/repository/home.js";

const fileSchema = z.strictObject({ format: z.literal(1), trustedMs: z.number().min(0) });
const checkMs = 60_000;
/** The trusted time is kept again after so long. */
const keepMs = 86_400_000;

export interface ClockGuardParts {
  readonly home: { readonly path: string; readonly ports: HomePorts };
  /** The newest time of a fact, where no trusted time was kept; 0: there is none. */
  newestFactMs(): Promise<number>;
  readonly accept: boolean;
  readonly log: Pick<Log, "info" | "warn" | "error">;
}

export class ClockGuard {
  #doubt: ClockDoubt | undefined;
  #keptMs = 0;
  #cancel: () => void = () => undefined;

  private constructor(
    private readonly parts: ClockGuardParts,
    private readonly start: ClockStart,
  ) {}

  static async open(parts: ClockGuardParts): Promise<ClockGuard> {
    const { home, accept } = parts;
    const known = (await readKept(home.ports.files, home.path)) ?? (await parts.newestFactMs());
    const knownMs = accept || known === 0 ? undefined : known;
    const guard = new ClockGuard(parts, { ...readingOf(home.ports), knownMs });
    await guard.#check();
    guard.#repeat();
    return guard;
  }

  /** @throws CLOCK_NOT_TRUSTED */
  requireTrusted(): void {
    const doubt = this.doubt;
    if (doubt !== undefined) throw doubtful(doubt, this.#clock.now());
  }

  /** The reason why the clock is not trusted; undefined: it is. */
  get doubt(): ClockDoubt | undefined {
    return judgeClock(this.start, readingOf(this.parts.home.ports));
  }

  /** The problem that health checks state. */
  get problems(): readonly { readonly code: "CLOCK_NOT_TRUSTED"; readonly message: string }[] {
    const { doubt } = this;
    if (doubt === undefined) return [];
    const { message } = doubtful(doubt, this.#clock.now());
    return [{ code: "CLOCK_NOT_TRUSTED", message }];
  }

  close(): void {
    this.#cancel();
  }

  get #clock(): Clock {
    return this.parts.home.ports.clock;
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
    const { log, home } = this.parts;
    const before = this.#doubt;
    const doubt = (this.#doubt = this.doubt);
    const nowMs = this.#clock.now();
    if (doubt !== undefined) {
      if (before === undefined) log.error("clock-not-trusted", { text: doubtful(doubt, nowMs).message });
      return;
    }
    if (before !== undefined)
      log.info("clock-trusted", { text: "the clock is right again; certificates are given again" });
    if (Math.abs(nowMs - this.#keptMs) < keepMs) return;
    const file = { format: 1, trustedMs: nowMs };
    await writeDurably(home.ports.files, pathIn(home.path), Buffer.from(`${JSON.stringify(file)}\n`));
    this.#keptMs = nowMs;
  }
}

function readingOf({ clock, sinceBootMs }: HomePorts): ClockReading {
  return { wallMs: clock.now(), monotonicMs: sinceBootMs?.() ?? clock.monotonic() };
}

const pathIn = (home: string): string => join(home, "clock.json");

/** Returns why the clock is too far past the last time that a server of this home trusted; undefined: it is not. */
export async function whyNotClock(
  files: Files,
  home: string,
  nowMs: number,
): Promise<StemmaError | undefined> {
  const knownMs = await readKept(files, home);
  const now = { wallMs: nowMs, monotonicMs: 0 };
  const doubt = judgeClock({ ...now, knownMs }, now);
  return doubt && doubtful(doubt, nowMs);
}

async function readKept(files: Files, path: string): Promise<number | undefined> {
  if ((await files.stat(pathIn(path))) === undefined) return undefined;
  return fileSchema.safeParse(parseJson(await files.read(pathIn(path)))).data?.trustedMs;
}

/** The error, and what the log and `doctor` say. */
function doubtful({ why, expectedMs }: ClockDoubt, nowMs: number): StemmaError {
  const [shown, expected] = [nowMs, expectedMs].map((ms) => new Date(ms).toISOString());
  const what =
    why === "apart"
      ? `shows ${shown}, and by the time that has passed since the server started it should be ${expected}`
      : `shows ${shown}, more than 30 days past ${expected}, the latest time that this server knows`;
  return new StemmaError(
    "CLOCK_NOT_TRUSTED",
    `The clock of this machine ${what}. No certificate or invitation is made by it: they would be good for another time. Set the clock right (\`date -u\`, time synchronisation). If it is right, start the server again with --accept-clock.`,
    { shown, expected },
  );
}
