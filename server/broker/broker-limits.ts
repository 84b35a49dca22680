/** Bounds of the embedded broker; every one may be set, none may be switched off. */
import {
  blockOverheadBytes,
  maxBlockBytes,
  maxWordBytes,
  publishOverheadBytes,
} from "../../shared/wire/limits.js";

export interface BrokerLimits {
  /** Longest MQTT frame of a device that is known: a block, its envelope and its topic. Bytes. */
  readonly maxFrameBytes: number;
  /** Everything a connection may send before it is known: a CONNECT with its will. Bytes. */
  readonly maxConnectBytes: number;
  /**
   * From the first byte to an accepted CONNECT (TLS handshake included), and from a frame's first byte to its
   * last.
   */
  readonly connectDeadlineMs: number;
  readonly frameDeadlineMs: number;
  /** Longest keepalive accepted; a client without one is held to it too. */
  readonly maxSilenceMs: number;
  /**
   * A client whose link takes nothing for this long is cut off. Longer than a block takes on a slow link (256
   * KiB in 30 s are 70 kbit/s), or a device behind one would be cut off in the middle of every block; a
   * client that has stopped reading holds up nobody meanwhile, because messages for devices do not pass
   * through the broker's routing.
   */
  readonly drainTimeoutMs: number;
  readonly maxConnections: number;
  readonly maxUnknownConnections: number;
  readonly maxConnectionsPerAddress: number;
  readonly maxSubscriptions: number;
  /** Of one device (state and birth), and of all. Bytes. */
  readonly maxRetainedBytesPerDevice: number;
  readonly maxRetainedBytes: number;
  /** Bytes written to a device that its link has not taken yet; what is beyond is dropped. */
  readonly maxBacklogBytes: number;
  /** Bytes of a device's messages waiting for their handler; beyond, its socket is not read. */
  readonly maxQueuedBytes: number;
}

export const defaultBrokerLimits: BrokerLimits = {
  maxFrameBytes: maxBlockBytes + blockOverheadBytes + publishOverheadBytes,
  maxConnectBytes: 8 * 1024,
  connectDeadlineMs: 10_000,
  frameDeadlineMs: 120_000,
  maxSilenceMs: 15 * 60_000,
  drainTimeoutMs: 30_000,
  maxConnections: 25_000,
  maxUnknownConnections: 512,
  maxConnectionsPerAddress: 5_000,
  maxSubscriptions: 8,
  maxRetainedBytesPerDevice: 2 * maxWordBytes,
  maxRetainedBytes: 256 * 1024 * 1024,
  maxBacklogBytes: 8 * 1024 * 1024,
  maxQueuedBytes: 8 * 1024 * 1024,
};
