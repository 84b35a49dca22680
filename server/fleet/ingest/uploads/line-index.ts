/**
 * Finds the version or claim that has a sequence number of a line. Every announcement and birth asks for this. The
 * repository finds versions; claims, of which there are few, are kept here.
 */
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { ClaimSummary } from "../../../storage/repository/claim.js";
import type { FleetRepository } from "../../../storage/repository/fleet-repository.js";

interface Reported {
  readonly versionId: Hash;
  /** Journal position of its fact. */
  readonly position: number;
  /** Generation of the device that sent it; absent where no device did. */
  readonly generation?: number;
  readonly record: { readonly sequence: number };
}

interface ClaimedLine {
  readonly claims: Map<number, Reported>;
  /** The claim with the highest number, by generation of the device. */
  readonly heads: Map<number | undefined, Reported>;
}

/** Returns the one that counts: that with the higher number, and of equal ones the one that was recorded later. */
function later(a: Reported | undefined, b: Reported | undefined): Reported | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  const order = a.record.sequence - b.record.sequence || a.position - b.position;
  return order > 0 ? a : b;
}

export class LineIndex {
  readonly #lines = new Map<string, ClaimedLine>();

  constructor(private readonly repository: Pick<FleetRepository, "claims" | "numbered" | "headOfLine">) {
    for (const claim of repository.claims()) this.claimed(claim);
  }

  /** Adds a claim. It stays when it has become a version, which counts instead of it. */
  claimed(claim: Pick<ClaimSummary, "versionId" | "record" | "position" | "generation">): void {
    const { record, generation } = claim;
    const key = keyOf(record.device, record.line);
    let line = this.#lines.get(key);
    if (line === undefined) this.#lines.set(key, (line = { claims: new Map(), heads: new Map() }));
    line.claims.set(record.sequence, later(claim, line.claims.get(record.sequence)) as Reported);
    line.heads.set(generation, later(claim, line.heads.get(generation)) as Reported);
  }

  find(device: string, line: string, sequence: number): Reported | undefined {
    const claimed = this.#lines.get(keyOf(device, line))?.claims.get(sequence);
    return later(this.repository.numbered({ device, line }, sequence), claimed);
  }

  /** The one with the highest number of a line that this generation of the device sent. */
  head(device: string, line: string, generation: number | undefined): Reported | undefined {
    const claimed = this.#lines.get(keyOf(device, line))?.heads.get(generation);
    return later(this.repository.headOfLine({ device, line }, generation), claimed);
  }
}

function keyOf(device: string, line: string): string {
  return `${device}\0${line}`;
}
