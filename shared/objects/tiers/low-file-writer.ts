/** Writes low files to a tier, each read back before anything relies on it. */
import { StemmaError } from "../../errors.js";
import type { Random } from "../../ports.js";
import type { Hash } from "../../tensor/tensor.js";
import { isSameEntry } from "../compact-pack.js";
import type { PackEntry } from "../pack-entry.js";
import { isLowFileIntact, makeLowFile, type LowFile } from "./low-file.js";
import type { TierFiles } from "./tier-files.js";

/** A low file is written when it has this many bytes; it is made in memory. */
const lowFileBytes = 32 * 1024 * 1024;
/** Writes a low file and reads it back: the only other copy is removed next. @throws FILE_FAILED */
export async function writeVerified(
  to: TierFiles,
  { name, bytes }: Pick<LowFile, "name" | "bytes">,
): Promise<void> {
  await to.write(name, bytes);
  if (isLowFileIntact(name, await to.read(name, 0, bytes.length))) return;
  await to.remove(name).catch(() => undefined);
  throw new StemmaError(
    "FILE_FAILED",
    `The tier returned other bytes than were written to it (low file ${name}). Nothing was removed from this home. Check the tier's disk, then try again.`,
    { file: name },
  );
}

/** Entries that are to be changed, each with what it becomes. */
export class ChangedEntries {
  readonly #changed = new Map<Hash, { readonly before: PackEntry; readonly after: PackEntry }>();
  get size(): number {
    return this.#changed.size;
  }
  /** Bytes of all low parts. */
  get lowBytes(): number {
    return [...this.#changed.values()].reduce((sum, { after }) => sum + (after.low?.bytes ?? 0), 0);
  }
  set(before: PackEntry, after: PackEntry): void {
    this.#changed.set(before.id, { before, after });
  }
  /** The entry as it becomes; one of another copy stays. */
  of(entry: PackEntry): PackEntry {
    const change = this.#changed.get(entry.id);
    return change !== undefined && isSameEntry(change.before, entry) ? change.after : entry;
  }
}

/** Gathers low-order bytes into low files, and notes the entries that name them. */
export class LowFileWriter {
  readonly #to: TierFiles;
  readonly #random: Random;
  readonly #changed: ChangedEntries;
  #waiting: { readonly entry: PackEntry; readonly low: Uint8Array }[] = [];
  #bytes = 0;

  constructor(to: TierFiles, random: Random, changed: ChangedEntries) {
    this.#to = to;
    this.#random = random;
    this.#changed = changed;
  }

  async add(entry: PackEntry, low: Uint8Array): Promise<void> {
    this.#waiting.push({ entry, low: low.slice() });
    this.#bytes += low.length;
    if (this.#bytes >= lowFileBytes) await this.flush();
  }

  async flush(): Promise<void> {
    if (this.#waiting.length === 0) return;
    const file = makeLowFile(
      this.#waiting.map(({ low }) => low),
      this.#random,
    );
    await writeVerified(this.#to, file);
    for (const [i, { entry }] of this.#waiting.entries())
      this.#changed.set(entry, { ...entry, low: file.parts[i] });
    this.#waiting = [];
    this.#bytes = 0;
  }
}
