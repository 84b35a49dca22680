/**
 * Draws the lineage of versions with characters, as `git log --graph` does. It goes newest first, with one
 * line for each version, and lines between them where paths part or join. Pure.
 *
 * A lane is a path to a version that is still to come, at the even columns. Where a version has several bases, lanes
 * open to the right of it; where two lanes lead to the same version, the right one joins the left one at once, so
 * that a base with hundreds of children needs two lanes, not hundreds.
 */
import type { Hash } from "../../shared/tensor/tensor.js";

/** The members of a version that the drawing needs. */
export interface GraphVersion {
  readonly versionId: Hash;
  readonly bases: readonly Hash[];
}

/** One line of the drawing. */
export interface GraphLine<Version> {
  /** The characters of the line, each with the number of its path; spaces have 0. */
  readonly cells: readonly { readonly character: string; readonly path: number }[];
  /** The version whose star is in this line. */
  readonly version?: Version;
}

interface Lane {
  readonly leadsTo: Hash;
  /** Numbers the paths from 1; for colours. */
  readonly path: number;
}

/** @param versions each before its bases; bases that are not among those that follow are not drawn */
export function drawLanes<Version extends GraphVersion>(
  versions: readonly Version[],
): readonly GraphLine<Version>[] {
  const drawing = new Drawing<Version>();
  const toCome = new Set(versions.map(({ versionId }) => versionId));
  for (const version of versions) {
    toCome.delete(version.versionId);
    drawing.add(
      version,
      [...new Set(version.bases)].filter((base) => toCome.has(base)),
    );
  }
  return drawing.lines;
}

class Drawing<Version extends GraphVersion> {
  readonly lines: GraphLine<Version>[] = [];
  #lanes: Lane[] = [];
  #paths = 0;

  add(version: Version, bases: readonly Hash[]): void {
    let lane = this.#lanes.findIndex(({ leadsTo }) => leadsTo === version.versionId);
    if (lane < 0) lane = this.#lanes.push({ leadsTo: version.versionId, path: ++this.#paths }) - 1;
    const row = new Row();
    this.#lanes.forEach(({ path }, i) => {
      row.set(2 * i, i === lane ? "*" : "|", path);
    });
    this.lines.push({ cells: row.cells, version });
    const [first, ...others] = bases;
    if (first === undefined) return this.#close(lane);
    this.#lanes[lane] = { leadsTo: first, path: (this.#lanes[lane] as Lane).path };
    others.forEach((base, i) => {
      this.#open(lane + i, base);
    });
    this.#join();
  }

  /** A version without bases ends its path; the lanes to the right of it move to the left. */
  #close(lane: number): void {
    const row = this.#rowOf(this.#lanes.slice(0, lane));
    const right = this.#lanes.slice(lane + 1);
    right.forEach(({ path }, i) => {
      row.set(2 * (lane + 1 + i) - 1, "/", path);
    });
    this.#lanes.splice(lane, 1);
    if (right.length > 0) this.lines.push({ cells: row.cells });
  }

  /** A new lane to the right of one; those further to the right make room. */
  #open(lane: number, leadsTo: Hash): void {
    const opened: Lane = { leadsTo, path: ++this.#paths };
    const row = this.#rowOf(this.#lanes.slice(0, lane + 1));
    row.set(2 * lane + 1, "\\", opened.path);
    this.#lanes.slice(lane + 1).forEach(({ path }, i) => {
      row.set(2 * (lane + 1 + i) + 1, "\\", path);
    });
    this.lines.push({ cells: row.cells });
    this.#lanes.splice(lane + 1, 0, opened);
  }

  /** Joins lanes that lead to the same version, the rightmost first. */
  #join(): void {
    for (let from = this.#lanes.length - 1; from > 0; from--) {
      const { leadsTo, path } = this.#lanes[from] as Lane;
      const to = this.#lanes.findIndex((lane) => lane.leadsTo === leadsTo);
      if (to < from) this.#joinInto(to, from, path);
    }
  }

  #joinInto(to: number, from: number, path: number): void {
    const row = this.#rowOf(this.#lanes.slice(0, from));
    row.set(2 * from - 1, "/", path);
    for (let between = to + 2; between < from; between++) row.set(2 * between - 1, "_", path);
    this.#lanes.slice(from + 1).forEach((lane, i) => {
      row.set(2 * (from + 1 + i) - 1, "/", lane.path);
    });
    this.lines.push({ cells: row.cells });
    this.#lanes.splice(from, 1);
    if (from === to + 1) return;
    const last = this.#rowOf(this.#lanes);
    last.set(2 * to + 1, "/", path);
    this.lines.push({ cells: last.cells });
  }

  #rowOf(lanes: readonly Lane[]): Row {
    const row = new Row();
    lanes.forEach(({ path }, i) => {
      row.set(2 * i, "|", path);
    });
    return row;
  }
}

class Row {
  readonly cells: { character: string; path: number }[] = [];

  set(column: number, character: string, path: number): void {
    while (this.cells.length < column) this.cells.push({ character: " ", path: 0 });
    this.cells[column] = { character, path };
  }
}
