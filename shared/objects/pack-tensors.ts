/**
 * Finds the objects of a pack store, reads their stored bytes, and records which were found damaged. Does not
 * depend on the codec or on collections.
 */
import type { StemmaError } from "../errors.js";
import type { Log } from "../ports.js";
import type { Hash } from "../tensor/tensor.js";
import type { ChainFault, ChainState } from "./chains.js";
import { isSameCopy, type Located } from "./compact-pack.js";
import type { ObjectIndex } from "./object-index.js";
import { planesCheck } from "./high-planes.js";
import type { PackFiles } from "./pack-files.js";
import { bytesInPack, type PackEntry } from "./pack-entry.js";
import type { PackIndex } from "./pack-format.js";
import {
  baseDamaged,
  chainDamaged,
  neverStoredHint,
  objectDamaged,
  objectMismatch,
  objectMissing,
  restoreAdvice,
} from "./object-errors.js";
import type { LowFiles } from "./tiers/low-files.js";
import type { LowPart } from "./tiers/low-part.js";
import { tensorEntryOf, type FoundDamage, type StoredTensors, type TensorEntry } from "./stored-tensors.js";

/** A pack that cannot be read, or, where `id` is given, one object in it. */
export interface StoreProblem {
  readonly pack: string;
  readonly id?: Hash;
  readonly error: StemmaError;
}

export class PackTensors implements StoredTensors {
  readonly #index: ObjectIndex;
  readonly #packFiles: PackFiles;
  readonly #lowFiles: LowFiles;
  readonly #log: Log | undefined;
  /** Packs whose header, trailer or index is damaged or missing, as far as they were read. */
  readonly #damagedPacks: Map<string, StoreProblem>;
  /** The copy of each object that was found damaged. */
  readonly #damaged = new Map<Hash, { readonly copy: Located; readonly problem: StoreProblem }>();
  constructor(
    index: ObjectIndex,
    { packFiles, lowFiles }: { readonly packFiles: PackFiles; readonly lowFiles: LowFiles },
    damagedPacks: readonly StoreProblem[],
    log: Log | undefined,
  ) {
    this.#index = index;
    this.#packFiles = packFiles;
    this.#lowFiles = lowFiles;
    this.#damagedPacks = new Map(damagedPacks.map((problem) => [problem.pack, problem]));
    this.#log = log;
  }

  /** Damage found so far, except where reads use an intact copy by now. */
  problems(): readonly StoreProblem[] {
    return [
      ...this.#damagedPacks.values(),
      ...[...this.#damaged]
        .filter(
          ([id, { copy }]) =>
            this.#index.damage(id) !== undefined && isSameCopy(copy, this.#index.locate(id)),
        )
        .map(([, { problem }]) => problem),
    ];
  }

  /** Notes that a pack's header, trailer or index is damaged, or that the pack is missing. */
  packDamaged(pack: string, error: StemmaError): void {
    if (!this.#damagedPacks.has(pack))
      this.#log?.error("pack-damaged", { pack, code: error.code, message: error.message });
    this.#damagedPacks.set(pack, { pack, error });
  }
  /** The pack was read again and is intact, or is gone from the store. */
  packIntact(pack: string): void {
    this.#damagedPacks.delete(pack);
  }

  /** @throws OBJECT_MISSING */
  locate(id: Hash): Located {
    const located = this.#index.locate(id);
    if (located !== undefined) return located;
    const unread = this.#damagedPacks.size;
    throw objectMissing(
      id,
      unread > 0
        ? `${unread === 1 ? "A pack" : `${unread} packs`} cannot be read, and it may be there. Run a check.`
        : neverStoredHint,
    );
  }

  locateTensor(id: Hash): { readonly pack: PackIndex; readonly entry: TensorEntry } {
    const { pack, entry } = this.locate(id);
    return { pack, entry: tensorEntryOf(entry) };
  }

  entry(id: Hash): TensorEntry {
    return this.locateTensor(id).entry;
  }
  /**
   * A raw copy that is known to be damaged counts as readable here, because a read of the object itself tries
   * it again.
   */
  state(id: Hash): ChainState {
    const located = this.#index.locate(id);
    return located?.entry.base === undefined && located !== undefined ? 0 : this.#index.state(id);
  }
  isReferenced(id: Hash): boolean {
    return this.#index.isReferenced(id);
  }

  /**
   * The pack is opened before the first await after the look-up, because a collection may move the tensor at
   * any time.
   */
  stored(id: Hash, length?: number): Promise<Uint8Array> {
    const { pack, entry } = this.locate(id);
    const wanted = Math.min(entry.storedBytes, length ?? entry.storedBytes);
    const inPack = this.#packFiles.use(pack, (from) =>
      from.range(entry.offset, Math.min(wanted, bytesInPack(entry))),
    );
    return entry.low === undefined || wanted <= bytesInPack(entry)
      ? inPack
      : this.#withLow(id, { entry, low: entry.low }, inPack).then((all) => all.subarray(0, wanted));
  }

  /** Adds the low-order bytes that are not in the pack. @throws TIER_UNREACHABLE; the error of lost ones */
  async #withLow(
    id: Hash,
    { entry, low }: { readonly entry: PackEntry; readonly low: LowPart },
    inPack: Promise<Uint8Array>,
  ): Promise<Uint8Array> {
    const [start, found] = await Promise.all([inPack, this.#lowFiles.read(low)]);
    if (!found.isDamaged) return Buffer.concat([start, found.bytes]);
    // The low-order bytes may have been moved meanwhile.
    const now = this.#index.locate(id)?.entry;
    if (now !== undefined && now.low?.file !== low.file) return await this.stored(id);
    throw this.damaged(id, entry, { why: found.why, cause: found.cause });
  }

  /**
   * The stored bytes of a copy that are in its pack, of a tensor whose low-order bytes are not. They are compared
   * with their plane check, so no tier is read. @throws PACK_CORRUPT
   */
  async verifiedInPack({ pack, entry }: Located): Promise<Uint8Array> {
    const bytes = await this.#packFiles.use(pack, (from) => from.range(entry.offset, bytesInPack(entry)));
    if (entry.planeChecks?.includes(planesCheck(bytes)) !== true) throw this.damaged(entry.id, entry, {});
    return bytes;
  }

  /** True if the low-order bytes of a tensor that were damaged or lost can be read again. */
  async areLowBytesBack(entry: PackEntry): Promise<boolean> {
    return entry.low !== undefined && !(await this.#lowFiles.read(entry.low)).isDamaged;
  }

  /** All stored bytes, in pieces. */
  pieces(id: Hash, pieceBytes: number): AsyncIterable<Uint8Array> {
    const { pack, entry } = this.locate(id);
    return this.#packFiles.stream(pack, (from) => from.pieces(entry.offset, entry.storedBytes, pieceBytes));
  }

  /** Reads some stored bytes. */
  range(id: Hash, from: number, length: number): Promise<Uint8Array> {
    const { pack, entry } = this.locate(id);
    return this.#packFiles.use(pack, (reader) => reader.range(entry.offset + from, length));
  }

  /** Fills `target` with stored bytes. */
  fill(id: Hash, from: number, target: Uint8Array): Promise<void> {
    const { pack, entry } = this.locate(id);
    return this.#packFiles.use(pack, (reader) => reader.fill(entry.offset + from, target));
  }

  damaged(id: Hash, entry: PackEntry, { actual, cause, why }: FoundDamage): StemmaError {
    const located = this.#index.locate(id);
    const pack = located?.pack.name ?? "that had it";
    const error =
      actual === undefined
        ? objectDamaged(
            id,
            [`the pack ${pack}`, why ?? "its bytes cannot be decoded"],
            { pack, cause },
            restoreAdvice(entry.kind),
          )
        : objectMismatch(id, actual, { where: `the pack ${pack}`, kind: entry.kind });
    // Another copy may have replaced the one that was read.
    if (
      located === undefined ||
      located.entry.offset !== entry.offset ||
      located.entry.epoch !== entry.epoch ||
      this.#index.damage(id) !== undefined
    )
      return error;
    this.#index.noteDamage(id, error);
    this.#damaged.set(id, { copy: located, problem: { pack, id, error } });
    this.#log?.error("object-damaged", { id, pack });
    return error;
  }

  unreadable(id: Hash, { why, id: at }: ChainFault): StemmaError {
    const damage = this.#index.damage(at);
    if (at === id && damage !== undefined) return damage;
    if (damage !== undefined) return baseDamaged(id, at, damage);
    if (why === "missing")
      return objectMissing(
        at,
        `The tensor ${id} is coded against it and cannot be decoded without it. Put it back from a backup, or let a device that has ${id} send it again.`,
      );
    const { pack } = this.locate(id);
    return chainDamaged(
      id,
      [`the pack ${pack.name}`, restoreAdvice("tensor")],
      { why, id: at },
      { pack: pack.name },
    );
  }
}
