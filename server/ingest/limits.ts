/** What one fleet's ingest takes on at most; a server's configuration may change each. Values only. */

export interface IngestLimits {
  /** Bytes of all tensors of one model, as declared and as its tree says. */
  readonly maxModelBytes: number;
  /**
   * Bytes of the small objects of one announcement that come as blocks (tree, names, measurements,
   * attachments).
   */
  readonly maxObjectBytes: number;
  /** Tensors of one model. */
  readonly maxTensors: number;
  /** Announcements waiting for their base: of one device, of all, their bytes, and how long. */
  readonly parkedPerDevice: number;
  readonly parkedTotal: number;
  readonly parkedBytes: number;
  readonly parkedMs: number;
  /**
   * Announcements of one device that are worked on at a time, and that wait for their turn; more are refused
   * with `retry`.
   */
  readonly receptionsPerDevice: number;
  readonly waitingPerDevice: number;
  /** The same over all devices of the fleet: worked on at a time, and bytes of announcements that wait. */
  readonly receptionsTotal: number;
  readonly waitingBytes: number;
  /** Bytes of unfinished transfers on disk, and how long an untouched one is kept. */
  readonly spoolBytes: number;
  readonly spoolMs: number;
  /**
   * Up to this size an unfinished transfer is held in memory: sending it again after a restart costs less
   * than a file.
   */
  readonly memorySpoolBytes: number;
  /** How long tensors that an answer relies on are pinned without progress. */
  readonly leaseMs: number;
  /** Bytes of all windows together that may be under way. */
  readonly windowBytes: number;
  readonly blockBytes: number;
  readonly window: number;
  /** Whether devices may send tensors coded against what this server holds. */
  readonly coding: boolean;
  /** Models that are read back from disk and compared at a time, and their bytes. */
  readonly confirmations: number;
  readonly confirmationBytes: number;
}

const MiB = 1024 * 1024;
export const defaultIngestLimits: IngestLimits = {
  maxModelBytes: 8 * 1024 * MiB,
  maxObjectBytes: 64 * MiB,
  maxTensors: 100_000,
  parkedPerDevice: 64,
  parkedTotal: 4096,
  parkedBytes: 64 * MiB,
  parkedMs: 10 * 60_000,
  receptionsPerDevice: 8,
  waitingPerDevice: 64,
  receptionsTotal: 512,
  waitingBytes: 256 * MiB,
  spoolBytes: 16 * 1024 * MiB,
  spoolMs: 7 * 24 * 3600_000,
  memorySpoolBytes: 64 * 1024,
  leaseMs: 60 * 60_000,
  windowBytes: 32 * MiB,
  blockBytes: 256 * 1024,
  window: 8,
  coding: true,
  confirmations: 8,
  confirmationBytes: 256 * MiB,
};
