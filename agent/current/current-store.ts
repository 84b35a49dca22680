/**
 * The writing side of "model out": writes a version into an immutable folder, then points `current/<line>` at
 * it. read-current.ts describes the format of the folder and reads it. Does not know how a model was
 * received; the caller has verified its root.
 */
import { createHash } from "node:crypto";
import { basename, join } from "node:path";
import { StemmaError } from "../../shared/errors.js";
import { makeFolderDurably } from "../../shared/files/make-folder.js";
import type { Clock, Files } from "../../shared/ports.js";
import type { SlotFile } from "../../shared/layouts/slot-files.js";
import { isHash } from "../../shared/tensor/hash.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { CurrentManifest } from "./read-current.js";

export type SlotDescription = Pick<CurrentManifest, "versionId" | "name" | "contentId" | "root">;

/** Milliseconds that a replaced version stays, for readers that resolved the link before. */
export const replacedStaysMs = 10 * 60 * 1000;
/** Bytes of an installed file that are read and hashed at a time. */
const pieceBytes = 1024 * 1024;
const unfinished = ".unfinished-";
const leaving = ".leaving-";

export class CurrentStore {
  /**
   * Monotonic time at which a version was replaced; for those that earlier processes replaced, the start of
   * this process.
   */
  readonly #replacedAt = new Map<string, number>();

  private constructor(
    private readonly files: Files,
    private readonly home: string,
    private readonly clock: Clock,
  ) {}

  /** Opens `versions/` and `current/` of a home. Removes what an interrupted installation or removal left. */
  static async open(files: Files, home: string, clock: Clock): Promise<CurrentStore> {
    const store = new CurrentStore(files, home, clock);
    await makeFolderDurably(files, join(home, "versions"));
    await makeFolderDurably(files, join(home, "current"));
    for (const name of await files.list(join(home, "versions"))) {
      if (name.startsWith(unfinished) || name.startsWith(leaving))
        await files.remove(join(home, "versions", name));
      else store.#replacedAt.set(name, clock.monotonic());
    }
    return store;
  }

  folderOf(versionId: Hash): string {
    return join(this.home, "versions", versionId);
  }
  async has(versionId: Hash): Promise<boolean> {
    return (await this.files.stat(this.folderOf(versionId))) !== undefined;
  }

  /** The version a line's link names; undefined when it has none. */
  async active(line: string): Promise<Hash | undefined> {
    const target = await this.files.readLink(join(this.home, "current", line));
    const id = target === undefined ? undefined : basename(target);
    return isHash(id) ? id : undefined;
  }

  /**
   * Writes a version's folder; resolves once it is durable and complete under its final name. Does
   * nothing when it exists already.
   */
  async install(slot: SlotDescription, files: readonly SlotFile[]): Promise<void> {
    const id = slot.versionId as Hash;
    if (await this.has(id)) return;
    const temporary = join(this.home, "versions", unfinished + id);
    await this.files.remove(temporary);
    await this.files.makeFolder(temporary);
    const listed: Record<string, { bytes: number; sha256: string }> = {};
    for (const file of files)
      listed[file.name] = await this.#writeFile(join(temporary, file.name), file.chunks);
    const kept = files.find(({ isKept }) => isKept === true);
    await this.#writeManifest(temporary, {
      format: 1,
      ...slot,
      ...(kept === undefined ? {} : { file: kept.name }),
      files: listed,
    });
    await this.files.syncFolder(temporary);
    await this.files.rename(temporary, this.folderOf(id));
    await this.files.syncFolder(join(this.home, "versions"));
    this.#replacedAt.set(id, this.clock.monotonic());
  }

  /**
   * Adds a file to an installed version that an earlier agent installed without it; resolves once that is durable. What
   * is there already stays as it is: a reader finds it with the file or without.
   */
  async add(versionId: Hash, file: SlotFile): Promise<void> {
    const folder = this.folderOf(versionId);
    const temporary = join(this.home, "versions", unfinished + versionId);
    await this.files.remove(temporary);
    await this.files.makeFolder(temporary);
    try {
      const written = await this.#writeFile(join(temporary, file.name), file.chunks);
      const manifest = await this.#manifestOf(versionId);
      await this.#writeManifest(temporary, {
        ...manifest,
        files: { ...manifest.files, [file.name]: written },
      });
      // The manifest comes last: it names no file that is not there.
      for (const name of [file.name, "manifest.json"]) {
        await this.files.rename(join(temporary, name), join(folder, name));
        await this.files.syncFolder(folder);
      }
    } finally {
      await this.files.remove(temporary);
    }
  }

  /** True if the manifest of an installed version names a file. */
  async lists(versionId: Hash, name: string): Promise<boolean> {
    return Object.hasOwn((await this.#manifestOf(versionId)).files, name);
  }

  async #manifestOf(versionId: Hash): Promise<CurrentManifest> {
    const bytes = await this.files.read(join(this.folderOf(versionId), "manifest.json"));
    return JSON.parse(new TextDecoder().decode(bytes)) as CurrentManifest;
  }

  async #writeManifest(folder: string, manifest: CurrentManifest): Promise<void> {
    await this.#writeFile(join(folder, "manifest.json"), [
      new TextEncoder().encode(`${JSON.stringify(manifest, null, 2)}\n`),
    ]);
  }

  /**
   * True if a version is installed and all its files are those that its manifest names, byte for byte: disks
   * change bits, and a training must not start from a model that nobody made.
   */
  async isSound(versionId: Hash): Promise<boolean> {
    const folder = this.folderOf(versionId);
    try {
      const manifest = await this.#manifestOf(versionId);
      for (const [name, { bytes, sha256 }] of Object.entries(manifest.files))
        if (!(await this.#isFile(join(folder, name), bytes, sha256))) return false;
      return manifest.versionId === versionId;
    } catch {
      return false;
    }
  }

  /** A file of an installed version, as its manifest names it; undefined: it has none, or it is damaged. */
  async fileOf(versionId: Hash, name: string): Promise<Uint8Array | undefined> {
    const folder = this.folderOf(versionId);
    try {
      const { files } = await this.#manifestOf(versionId);
      const listed = Object.hasOwn(files, name) ? files[name] : undefined;
      if (listed === undefined) return undefined;
      const bytes = await this.files.read(join(folder, name));
      return createHash("sha256").update(bytes).digest("hex") === listed.sha256 ? bytes : undefined;
    } catch {
      return undefined;
    }
  }

  /** Name of the file that an installed version is, where it is one that is kept as it is. */
  async keptName(versionId: Hash): Promise<string | undefined> {
    try {
      return (await this.#manifestOf(versionId)).file;
    } catch {
      return undefined;
    }
  }

  async #isFile(path: string, byteLength: number, sha256: string): Promise<boolean> {
    if ((await this.files.stat(path))?.size !== byteLength) return false;
    const hash = createHash("sha256");
    const file = await this.files.open(path, "read");
    try {
      const piece = new Uint8Array(Math.min(pieceBytes, byteLength));
      for (let at = 0; at < byteLength;) {
        const count = await file.read(piece, at);
        if (count === 0) return false;
        hash.update(piece.subarray(0, count));
        at += count;
      }
    } finally {
      await file.close();
    }
    return hash.digest("hex") === sha256;
  }

  /** Removes a version's folder, so that it can be installed again. */
  async discard(versionId: Hash): Promise<void> {
    if (!(await this.has(versionId))) return;
    await this.files.rename(this.folderOf(versionId), join(this.home, "versions", leaving + versionId));
    await this.files.remove(join(this.home, "versions", leaving + versionId));
  }

  /**
   * Switches a line to an installed version; resolves once the switch is durable.
   * @throws SLOT_CORRUPT when the version is not installed
   */
  async activate(line: string, versionId: Hash): Promise<void> {
    if (!(await this.has(versionId)))
      throw new StemmaError(
        "SLOT_CORRUPT",
        `The version ${versionId.slice(0, 12)} is not installed in ${this.home}, so ${line} cannot switch to it. Install it first.`,
        { line, versionId },
      );
    const before = await this.active(line);
    if (before === versionId) return;
    await this.files.replaceLink(join("..", "versions", versionId), join(this.home, "current", line));
    await this.files.syncFolder(join(this.home, "current"));
    if (before !== undefined) this.#replacedAt.set(before, this.clock.monotonic());
  }

  /** Takes a line's link away, which ran nothing before; resolves once that is durable. */
  async deactivate(line: string): Promise<void> {
    const before = await this.active(line);
    await this.files.remove(join(this.home, "current", line));
    await this.files.syncFolder(join(this.home, "current"));
    if (before !== undefined) this.#replacedAt.set(before, this.clock.monotonic());
  }

  /**
   * Removes installed versions that no line runs, that were replaced at least ten minutes ago and that are
   * not in `keep` (the last replaced version of each line). Returns the removed versions.
   */
  async sweep(keep: ReadonlySet<string>): Promise<readonly string[]> {
    const active = new Set<string>();
    for (const line of await this.files.list(join(this.home, "current"))) {
      const id = await this.active(line);
      if (id !== undefined) active.add(id);
    }
    const gone: string[] = [];
    for (const name of await this.files.list(join(this.home, "versions"))) {
      if (!isHash(name) || active.has(name) || keep.has(name)) continue;
      if (this.clock.monotonic() - (this.#replacedAt.get(name) ?? -Infinity) < replacedStaysMs) continue;
      // Renamed first: a reader finds the complete folder or none.
      await this.files.rename(this.folderOf(name), join(this.home, "versions", leaving + name));
      await this.files.remove(join(this.home, "versions", leaving + name));
      this.#replacedAt.delete(name);
      gone.push(name);
    }
    return gone;
  }

  /** Bytes of all installed versions. */
  async bytes(): Promise<number> {
    let sum = 0;
    for (const version of await this.files.list(join(this.home, "versions"))) {
      for (const name of await this.files.list(join(this.home, "versions", version)))
        sum += (await this.files.stat(join(this.home, "versions", version, name)))?.size ?? 0;
    }
    return sum;
  }

  async #writeFile(path: string, chunks: SlotFile["chunks"]): Promise<{ bytes: number; sha256: string }> {
    const hash = createHash("sha256");
    let position = 0;
    const file = await this.files.open(path, "create");
    try {
      for await (const chunk of chunks) {
        await file.write(chunk, position);
        hash.update(chunk);
        position += chunk.length;
      }
      await file.sync();
    } finally {
      await file.close();
    }
    return { bytes: position, sha256: hash.digest("hex") };
  }
}
