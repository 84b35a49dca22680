/**
 * Finds the low-order bytes of tensors that are not in their pack. They are in the store's own folder, where a restore
 * puts them, or in one of the tiers. Packs name a low file, not the tier that has it, so files can move between tiers.
 */
import { isStemmaError, StemmaError } from "../../errors.js";
import { isLowFileIntact } from "./low-file.js";
import type { LowPart } from "./low-part.js";
import { lowPartCheck } from "./low-part.js";
import { tierUnreachable, type Tier, type TierFiles } from "./tier-files.js";

/** The places where a store's low files may be. */
export interface LowFilePlaces {
  /** The store's own folder. */
  readonly near: TierFiles;
  /** Names of the low files in it. */
  readonly nearNames: Set<string>;
  /** The tiers that are configured now. */
  readonly tiers: () => readonly Tier[];
}

/** Bytes of a low part, or why they are damaged or lost, as a text to follow "because". */
export type LowRead =
  | { readonly bytes: Uint8Array; readonly isDamaged: false }
  | { readonly isDamaged: true; readonly why: string; readonly cause?: StemmaError };

export class LowFiles {
  readonly #places: LowFilePlaces;
  /** The tier that last had a file. */
  readonly #tierOf = new Map<string, string>();
  readonly #read = { parts: 0, bytes: 0 };

  constructor(places: LowFilePlaces) {
    this.#places = places;
  }

  get places(): LowFilePlaces {
    return this.#places;
  }

  /** The parts and bytes that were read from tiers since the store was opened. */
  get readFromTiers(): { readonly parts: number; readonly bytes: number } {
    return { ...this.#read };
  }

  /** Forgets which tier has which file, after files were moved. */
  forget(): void {
    this.#tierOf.clear();
  }

  /** @throws TIER_UNREACHABLE where a tier that may have the file cannot be read now */
  async read(low: LowPart): Promise<LowRead> {
    const { near, nearNames } = this.#places;
    if (nearNames.has(low.file)) {
      const found = await readPart(near, low, "this home");
      if (found?.isDamaged === false) return found;
      if (found === undefined) nearNames.delete(low.file);
    }
    const tiers = this.#inOrder(low.file);
    let unreachable: StemmaError | undefined;
    let damaged: LowRead | undefined;
    for (const { name, files } of tiers) {
      try {
        const found = await readPart(files, low, `the tier ${name}`);
        damaged ??= found;
        if (found === undefined || found.isDamaged) continue;
        this.#tierOf.set(low.file, name);
        this.#read.parts++;
        this.#read.bytes += low.bytes;
        return found;
      } catch (error) {
        if (!isStemmaError(error, "TIER_UNREACHABLE")) throw error;
        unreachable ??= error;
      }
    }
    if (unreachable !== undefined) throw unreachable;
    if (damaged !== undefined) return damaged;
    if (tiers.length === 0)
      throw tierUnreachable(
        "that has this tensor's low-order bytes",
        `is not known to this home any more (low file ${low.file}): name its folder with \`stemma storage tier add\``,
      );
    return {
      isDamaged: true,
      why: `the low file ${low.file} is in none of the tiers ${tiers.map(({ name }) => name).join(", ")}, which may be older copies`,
    };
  }

  /** A complete low file. @throws TIER_UNREACHABLE; PACK_CORRUPT where it is damaged or lost */
  async readFile(name: string): Promise<Uint8Array> {
    const { near } = this.#places;
    let unreachable: StemmaError | undefined;
    for (const { files } of [{ files: near }, ...this.#inOrder(name)]) {
      try {
        const size = await files.sizeOf(name);
        const bytes = size === undefined ? undefined : await files.read(name, 0, size);
        if (bytes !== undefined && isLowFileIntact(name, bytes)) return bytes;
      } catch (error) {
        if (!isStemmaError(error, "TIER_UNREACHABLE")) throw error;
        unreachable ??= error;
      }
    }
    throw (
      unreachable ??
      new StemmaError(
        "PACK_CORRUPT",
        `The low file ${name} is damaged, or in none of the places where this home keeps low-order bytes. Put it back from a backup, or from a newer copy of the tier.`,
        { file: name },
      )
    );
  }

  #inOrder(file: string): readonly Tier[] {
    const tiers = this.#places.tiers();
    const last = this.#tierOf.get(file);
    return last === undefined
      ? tiers
      : tiers.toSorted((a, b) => Number(b.name === last) - Number(a.name === last));
  }
}

/** Reads a low part; undefined where the file is not there. @throws TIER_UNREACHABLE, FILE_FAILED */
async function readPart(files: TierFiles, low: LowPart, where: string): Promise<LowRead | undefined> {
  try {
    const bytes = await files.read(low.file, low.offset, low.bytes);
    return lowPartCheck(bytes) === low.check
      ? { bytes, isDamaged: false }
      : { isDamaged: true, why: `its low-order bytes in ${where} (low file ${low.file}) were changed` };
  } catch (error) {
    if (isStemmaError(error, "FILE_MISSING")) return undefined;
    if (isStemmaError(error, "PACK_CORRUPT"))
      return { isDamaged: true, why: `the low file ${low.file} in ${where} is cut off`, cause: error };
    throw error;
  }
}
