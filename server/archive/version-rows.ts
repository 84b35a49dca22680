/** Looks up versions by their position in a row. Pure. */
import type { ArchiveVersion } from "./candidate-references.js";

/** Versions in rows, each in the order in which they were added. */
export class Rows<Key> {
  readonly #rows = new Map<
    Key,
    { readonly versions: ArchiveVersion[]; readonly indices: Map<ArchiveVersion, number> }
  >();

  add(key: Key, version: ArchiveVersion): void {
    let row = this.#rows.get(key);
    if (row === undefined) this.#rows.set(key, (row = { versions: [], indices: new Map() }));
    if (!row.indices.has(version)) row.indices.set(version, row.versions.length);
    row.versions.push(version);
  }

  /** Up to `count` versions just before one in its row, in their order. */
  before(key: Key, version: ArchiveVersion, count: number): readonly ArchiveVersion[] {
    const row = this.#rows.get(key);
    const index = row?.indices.get(version) ?? 0;
    return row?.versions.slice(Math.max(0, index - count), index) ?? [];
  }

  /** The versions next to one in its row, nearest first. */
  nearest(key: Key, version: ArchiveVersion, eachSide: number): readonly ArchiveVersion[] {
    const row = this.#rows.get(key);
    const index = row?.indices.get(version);
    if (row === undefined || index === undefined) return [];
    const found: ArchiveVersion[] = [];
    for (let distance = 1; distance <= eachSide; distance++)
      for (const other of [row.versions[index - distance], row.versions[index + distance]])
        if (other !== undefined) found.push(other);
    return found;
  }
}
