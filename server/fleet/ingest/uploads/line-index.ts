/**
 * Finds the version that has a sequence number of a line. Every announcement and birth asks for this, so an
 * index is kept instead of searching. Built from the recorded versions; contains nothing that the journal
 * does not.
 */
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { VersionSummary } from "../../../storage/repository/answers/version-answers.js";

interface IndexedVersion {
  readonly versionId: Hash;
  readonly sequence: number;
  /** Journal position of its fact. */
  readonly position: number;
  /** Generation of the device that sent it; undefined where no device did. */
  readonly generation: number | undefined;
}

/** A version or a claim. */
type ReportedVersion = Pick<VersionSummary, "versionId" | "record" | "position" | "generation">;

interface IndexedLine {
  readonly versions: Map<number, IndexedVersion>;
  /** The version with the highest number, by generation of the device. */
  readonly heads: Map<number | undefined, IndexedVersion>;
}

/** True if `version` counts instead of `known`: it has a higher number, or the same and was recorded later. */
function succeeds(version: IndexedVersion, known: IndexedVersion | undefined): boolean {
  if (known === undefined || version.sequence > known.sequence) return true;
  return version.sequence === known.sequence && version.position >= known.position;
}

export class LineIndex {
  readonly #lines = new Map<string, IndexedLine>();

  constructor(versions: Iterable<ReportedVersion>) {
    for (const summary of versions) this.add(summary);
  }

  /**
   * Adds a recorded version. Where two have the same number (a device that is enrolled again counts from the
   * start), the later one counts.
   */
  add({ versionId, record: { device, line, sequence }, position, generation }: ReportedVersion): void {
    const key = `${device}\0${line}`;
    let indexed = this.#lines.get(key);
    if (indexed === undefined) this.#lines.set(key, (indexed = { versions: new Map(), heads: new Map() }));
    const version = { versionId, sequence, position, generation };
    if (succeeds(version, indexed.versions.get(sequence))) indexed.versions.set(sequence, version);
    if (succeeds(version, indexed.heads.get(generation))) indexed.heads.set(generation, version);
  }

  find(device: string, line: string, sequence: number): IndexedVersion | undefined {
    return this.#lines.get(`${device}\0${line}`)?.versions.get(sequence);
  }

  /** The version with the highest number of a line that this generation of the device sent. */
  head(device: string, line: string, generation: number | undefined): IndexedVersion | undefined {
    return this.#lines.get(`${device}\0${line}`)?.heads.get(generation);
  }
}
