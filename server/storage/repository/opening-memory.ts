/**
 * Ends the opening of a fleet that needs more memory than this process may use, by an error that says so: where V8's
 * heap is full, the process would end without a word.
 */
import { nextTurn } from "../../../shared/concurrency/in-steps.js";
import type { MemoryReading } from "./node-memory.js";
import { memoryForOpening } from "./repository-errors.js";

/** An opening ends from this share of the heap on. A server takes no new models long before (memory-room.ts). */
const fullShare = 0.92;
/** V8 ends a process whose collections free hardly anything, a few MB before its limit. */
const reserveBytes = 8 * 1024 * 1024;
const itemsPerLook = 512;

/** Looks at the memory while the facts and records of a fleet are read. */
export class OpeningMemory {
  #count = 0;

  /** @param read the memory of this process; undefined: it is not looked at */
  constructor(
    private readonly fleet: string,
    private readonly read: (() => MemoryReading) | undefined,
  ) {}

  /** Counts one item that is read; returns what to wait for before the next, now and then. @throws MEMORY_FULL */
  item(): Promise<void> | undefined {
    return this.read === undefined || ++this.#count % itemsPerLook > 0 ? undefined : this.#look(this.read);
  }

  /** True if so many bytes more leave the heap room. */
  hasRoomFor(bytes: number): boolean {
    if (this.read === undefined) return true;
    const { heapBytes, heapLimitBytes } = this.read();
    return heapBytes + bytes <= mostBytes(heapLimitBytes);
  }

  async #look(read: () => MemoryReading): Promise<void> {
    // The collections of the heap are told between two turns of the event loop.
    await nextTurn();
    const { heapBytes, heapLimitBytes } = read();
    if (heapBytes > mostBytes(heapLimitBytes)) throw memoryForOpening(this.fleet, heapBytes, heapLimitBytes);
  }
}

function mostBytes(heapLimitBytes: number): number {
  return Math.min(fullShare * heapLimitBytes, heapLimitBytes - reserveBytes);
}
