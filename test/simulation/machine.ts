/**
 * A machine: a disk, a wall clock that may be wrong, and at most one process, which ends by itself, is killed, or loses
 * its power. What a process that ended still had under way reaches nothing any more.
 */
import type { Clock, Files, Log, LogFields, Random } from "../../shared/ports.js";
import { filesOfProcess, type KillableProcess } from "../helpers/files/files-of-process.js";
import { Choice } from "./choice.js";
import { CrashDisk } from "./crash-disk.js";
import type { EventLog } from "./event-log.js";
import type { VirtualTime } from "./virtual-time.js";

/** When every simulation starts, by clocks that are right. */
const startMs = Date.UTC(2026, 0, 5, 6);

export interface Process extends KillableProcess {
  readonly clock: Clock;
  readonly random: Random;
  readonly files: Files;
  readonly log: Log;
}

export interface MachineParts {
  readonly seed: number;
  readonly time: VirtualTime;
  readonly events: EventLog;
}

export class Machine {
  readonly disk: CrashDisk;
  /** How far its wall clock is ahead. */
  wallErrorMs = 0;
  readonly choice: Choice;
  readonly #random: Choice;
  #process: Process | undefined;

  constructor(
    readonly name: string,
    private readonly parts: MachineParts,
  ) {
    const { seed } = parts;
    this.choice = new Choice(seed, `machine ${name}`);
    this.#random = new Choice(seed, `random ${name}`);
    this.disk = new CrashDisk(() => this.wallMs, new Choice(seed, `disk ${name}`));
  }

  get wallMs(): number {
    return startMs + this.parts.time.nowMs + this.wallErrorMs;
  }
  get isRunning(): boolean {
    return this.#process !== undefined;
  }

  /** @param onEvent is told of what the process logs while it runs */
  begin(onEvent: (event: string, fields: LogFields) => void): Process {
    const { time, events } = this.parts;
    const beganMs = time.nowMs;
    const process: Process = {
      isRunning: true,
      clock: {
        now: () => this.wallMs,
        monotonic: () => time.nowMs - beganMs,
        after: (delayMs, callback) =>
          time.after(delayMs, () => {
            if (process.isRunning) callback();
          }),
      },
      random: { bytes: (count) => this.#random.bytes(count) },
      get files() {
        return files;
      },
      log: events.logOf(this.name, (event, fields) => {
        if (process.isRunning) onEvent(event, fields);
      }),
    };
    const files = filesOfProcess(this.disk.files, process);
    this.#process = process;
    return process;
  }

  /** The process is gone, its disk stays as it is. */
  kill(): void {
    if (this.#process !== undefined) this.#process.isRunning = false;
    this.#process = undefined;
  }

  /** The process is gone, and of what was not fsynced some is lost. */
  losePower(): void {
    this.kill();
    this.disk.crash();
  }
}
