/** Looks now and then how full the server's memory is, and says so in the log before new models are refused. */
import type { Clock, Log } from "../../../shared/ports.js";
import {
  fullAtMs,
  memoryProblem,
  memoryUse,
  type EarlierUse,
  type MemoryProblem,
  type MemoryUse,
} from "../../services/context/memory-room.js";
import type { MemoryReading } from "../../storage/repository/node-memory.js";

const lookMs = 15_000;
/** The rate is measured over the time since the newest mark that is at least so old. */
const markMs = 86_400_000;

export interface MemoryWatchParts {
  readonly clock: Clock;
  readonly log: Pick<Log, "info" | "warn">;
  read(): MemoryReading;
}

export class MemoryWatch {
  #told: MemoryProblem["code"] | undefined;
  /** Earlier uses by kind of memory, the older first. */
  readonly #marks: Record<MemoryUse["what"], EarlierUse[]> = { heap: [], machine: [] };
  #cancel: () => void = () => undefined;

  constructor(private readonly parts: MemoryWatchParts) {
    this.#look();
  }

  get use(): MemoryUse {
    return memoryUse(this.parts.read());
  }

  /** The time from which new models will be refused at the present rate; undefined: not known yet, or never. */
  get fullAtMs(): number | undefined {
    const { use } = this;
    const [earlier] = this.#marks[use.what];
    return earlier && fullAtMs(use, earlier, this.parts.clock.now());
  }

  get problem(): MemoryProblem | undefined {
    return memoryProblem(this.use, this.fullAtMs);
  }

  close(): void {
    this.#cancel();
  }

  #look(): void {
    const { clock, log } = this.parts;
    this.#mark();
    const { problem } = this;
    if (problem !== undefined && problem.code !== this.#told)
      log.warn(problem.code === "MEMORY_FULL" ? "memory-full" : "memory-nearly-full", {
        text: problem.message,
      });
    if (problem === undefined && this.#told !== undefined)
      log.info("memory-free", { text: "the server's memory has room for new models again" });
    this.#told = problem?.code;
    this.#cancel = clock.after(lookMs, () => {
      this.#look();
    });
  }

  #mark(): void {
    const { use } = this;
    const nowMs = this.parts.clock.now();
    // Nothing is known of the heap before its first collection.
    if (use.usedBytes === 0) return;
    const marks = this.#marks[use.what];
    const newest = marks.at(-1);
    if (newest === undefined || nowMs - newest.atMs >= markMs)
      marks.push({ usedBytes: use.usedBytes, atMs: nowMs });
    if (marks.length > 2) marks.shift();
  }
}
