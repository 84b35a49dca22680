/**
 * Finds the version that has a sequence number of a line. Every announcement and birth asks for this, so an
 * index is kept instead of searching. Built from the recorded versions; contains nothing that the journal
 * does not.
 */
import type { Hash } from "../../shared/tensor/tensor.js";
import type { VersionSummary } from "../repository/fleet-repository.js";

interface IndexedVersion {
  readonly versionId: Hash;
  readonly sequence: number;
  /** Journal position of its fact. */
  readonly position: number;
  /** Generation of the device that sent it; undefined where no device did. */
  readonly generation: number | undefined;
}

export class LineIndex {
  readonly #lines = new Map<string, Map<number, IndexedVersion>>();

  constructor(versions: Iterable<VersionSummary>) {
    for (const summary of versions) this.add(summary);
  }

  /**
   * Adds a recorded version. Where two have the same number (a device that is enrolled again counts from the
   * start), the later one counts.
   */
  add({ versionId, record: { device, line, sequence }, position, generation }: VersionSummary): void {
    const key = `${device}\0${line}`;
    let versions = this.#lines.get(key);
    if (versions === undefined) this.#lines.set(key, (versions = new Map<number, IndexedVersion>()));
    const before = versions.get(sequence);
    if (before === undefined || before.position <= position)
      versions.set(sequence, { versionId, sequence, position, generation });
  }

  find(device: string, line: string, sequence: number): IndexedVersion | undefined {
    return this.#lines.get(`${device}\0${line}`)?.get(sequence);
  }

  /** The version with the highest number of a line that this generation of the device sent. */
  head(device: string, line: string, generation: number | undefined): IndexedVersion | undefined {
    let head: IndexedVersion | undefined;
    for (const version of this.#lines.get(`${device}\0${line}`)?.values() ?? [])
      if (version.generation === generation && (head === undefined || version.sequence > head.sequence))
        head = version;
    return head;
  }
}
