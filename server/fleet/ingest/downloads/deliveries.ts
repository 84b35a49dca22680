/**
 * Notes which models the server has sent to devices completely, as facts (`given`): a device need not send
 * back what it was given (held-versions.ts). What a training used is not part of it. Counts what was sent,
 * because a device's own report proves nothing. What was sent in part is known to this process only: after a
 * restart in the middle of a download, the device sends a tensor once more than needed.
 */
import { modelObjectsOf } from "../../../../shared/model/record-objects.js";
import type { Clock } from "../../../../shared/ports.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { BlockRequest, Block, ManifestPart, TransferDone } from "../../../../shared/wire/messages.js";
import type { VersionSummary } from "../../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../../storage/repository/fleet-repository.js";
import { provenBy } from "./held-versions.js";

export interface DeliveriesParts {
  readonly repository: Pick<
    FleetRepository,
    "objects" | "get" | "leaves" | "device" | "assignment" | "stagedFor" | "hasHad" | "hasSent" | "append"
  >;
  readonly clock: Pick<Clock, "now">;
}

/** Max unfinished streams, and versions that were sent in part, that are remembered; the oldest go first. */
const maxRemembered = 4096;

/** The blocks of one stream that were sent, over all connections in which it was requested. */
export class SentStream {
  #blocks: Uint8Array | undefined;
  #missingBlocks = Number.POSITIVE_INFINITY;
  /** Bytes of all blocks that were sent, also of those that were sent again. */
  bytes = 0;
  /** Milliseconds in which it was being sent, over all connections. */
  durationMs = 0;

  /** Every block was sent at least once. */
  get isComplete(): boolean {
    return this.#missingBlocks === 0;
  }
  sent(message: ManifestPart | Block | BlockRequest | TransferDone): void {
    if (message.type === "manifest" && this.#blocks === undefined) {
      this.#missingBlocks = Math.ceil(message.byteLength / message.blockBytes);
      this.#blocks = new Uint8Array(this.#missingBlocks);
    }
    if (message.type === "block") this.bytes += message.data.length;
    if (message.type !== "block" || this.#blocks?.[message.index] !== 0) return;
    this.#blocks[message.index] = 1;
    this.#missingBlocks--;
  }
}

function remember<Value>(map: Map<string, Value>, key: string, value: Value): Value {
  map.delete(key);
  map.set(key, value);
  const oldest = map.keys().next().value;
  if (map.size > maxRemembered && oldest !== undefined) map.delete(oldest);
  return value;
}

/** The part of a version that was sent to a device so far. */
interface Sent {
  readonly ids: Set<Hash>;
  bytes: number;
  durationMs: number;
}

export class Deliveries {
  readonly #streams = new Map<string, SentStream>();
  /** Device, generation and version → objects that were sent. */
  readonly #sent = new Map<string, Sent>();
  constructor(private readonly parts: DeliveriesParts) {}

  /** The blocks sent of a stream; the same for the same key. */
  stream(key: string): SentStream {
    return remember(this.#streams, key, this.#streams.get(key) ?? new SentStream());
  }

  /** Objects that were sent inside an offer. */
  offered(device: string, versionId: Hash, ids: Iterable<Hash>): void {
    const key = this.#key(device, versionId);
    const sent = remember(
      this.#sent,
      key,
      this.#sent.get(key) ?? { ids: new Set(), bytes: 0, durationMs: 0 },
    );
    for (const id of ids) sent.ids.add(id);
  }

  /** A complete stream of these objects was sent. Appends the fact once nothing of the version is left. */
  async delivered(
    device: string,
    summary: VersionSummary,
    ids: Iterable<Hash>,
    { bytes, durationMs }: Pick<SentStream, "bytes" | "durationMs">,
  ): Promise<void> {
    const { repository, clock } = this.parts;
    const { versionId, record } = summary;
    this.offered(device, versionId, ids);
    const key = this.#key(device, versionId);
    const sent = this.#sent.get(key);
    if (sent !== undefined) {
      sent.bytes += bytes;
      sent.durationMs += durationMs;
    }
    const known = repository.device(device);
    if (known === undefined || repository.hasHad(device, versionId)) return;
    const line =
      known.lines.find((one) => repository.assignment(device, one) === versionId) ??
      repository.stagedFor(device).find((staged) => staged.versionId === versionId)?.line ??
      record.line;
    const { objects } = await provenBy(
      repository,
      { device, line, bases: record.bases, ...(record.successorOf && { successorOf: record.successorOf }) },
      known.active[line]?.versionId,
    );
    const needed = [
      ...modelObjectsOf(record).map(({ id }) => id),
      ...(await repository.leaves(versionId)).map(({ tensor }) => tensor),
    ];
    if (!needed.every((id) => sent?.ids.has(id) === true || objects.has(id))) return;
    const { generation } = known;
    await repository.append({
      type: "given",
      atMs: clock.now(),
      device,
      generation,
      versionId,
      ...(sent === undefined ? {} : { bytes: sent.bytes, durationMs: Math.round(sent.durationMs) }),
    });
    this.#sent.delete(key);
  }

  #key(device: string, versionId: Hash): string {
    return `${device}\0${this.parts.repository.device(device)?.generation ?? 0}\0${versionId}`;
  }
}
