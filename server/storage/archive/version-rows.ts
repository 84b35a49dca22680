/** Looks up versions by their position in a row. Pure. */

/** Versions in rows, each in the order in which they were added. */
export class Rows<Key, Version> {
  readonly #rows = new Map<Key, { readonly versions: Version[]; readonly indices: Map<Version, number> }>();

  add(key: Key, version: Version): void {
    let row = this.#rows.get(key);
    if (row === undefined) this.#rows.set(key, (row = { versions: [], indices: new Map() }));
    if (!row.indices.has(version)) row.indices.set(version, row.versions.length);
    row.versions.push(version);
  }

  /** Returns up to `count` versions just before one in its row, in their order. */
  before(key: Key, version: Version, count: number): readonly Version[] {
    const row = this.#rows.get(key);
    const index = row?.indices.get(version) ?? 0;
    return row?.versions.slice(Math.max(0, index - count), index) ?? [];
  }

  /** The versions next to one in its row, nearest first. */
  nearest(key: Key, version: Version, eachSide: number): readonly Version[] {
    const row = this.#rows.get(key);
    const index = row?.indices.get(version);
    if (row === undefined || index === undefined) return [];
    const found: Version[] = [];
    for (let distance = 1; distance <= eachSide; distance++)
      for (const other of [row.versions[index - distance], row.versions[index + distance]])
        if (other !== undefined) found.push(other);
    return found;
  }
}
