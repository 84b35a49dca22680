/**
 * Limits of the embedded broker. The schema is the documentation of `limits.broker` in server.json; a
 * limit that is left out has its default, and none can be switched off.
 */
import * as z from "zod";
import {
  blockOverheadBytes,
  maxBlockBytes,
  maxMessageBytes,
  publishOverheadBytes,
} from "../../../shared/wire/limits.js";

const KiB = 1024;
const MiB = 1024 * KiB;

const count = (): z.ZodNumber => z.number().int().positive();

export const brokerLimitsSchema = z.strictObject({
  maxFrameBytes: count()
    .default(maxBlockBytes + blockOverheadBytes + publishOverheadBytes)
    .describe(
      "Bytes of one MQTT frame of an authenticated device: a block with its envelope and topic. Applies to an external broker's messages too.",
    ),
  maxConnectBytes: count()
    .default(8 * KiB)
    .describe("Bytes that a connection may send before it is authenticated: a CONNECT with its will."),
  connectDeadlineMs: count()
    .default(10_000)
    .describe("Milliseconds from a connection's first byte to its accepted CONNECT, TLS handshake included."),
  frameDeadlineMs: count()
    .default(120_000)
    .describe("Milliseconds from the first byte of an MQTT frame to its last."),
  maxSilenceMs: count()
    .default(15 * 60_000)
    .describe(
      "Milliseconds without any byte after which a connection is closed, whatever keepalive the device asked for.",
    ),
  // 256 KiB in 30 s is 70 kbit/s: a shorter timeout would cut off a device on a slow link within every block.
  // A client that has stopped reading blocks nobody meanwhile, because messages for devices bypass aedes'
  // routing.
  drainTimeoutMs: count()
    .default(30_000)
    .describe(
      "Milliseconds after which a connection that accepts no bytes is closed. Must be longer than one block takes on the slowest link.",
    ),
  maxConnections: count().default(25_000).describe("Number of open connections."),
  maxUnknownConnections: count()
    .default(1024)
    .describe(
      "Number of open connections that are not authenticated yet. Beyond this, the oldest silent one of the address that has most of them is closed for a new one.",
    ),
  maxUnknownConnectionsPerAddress: count()
    .default(256)
    .describe(
      "Number of open connections from one IP address (of IPv6: its first 64 bits) that are not authenticated yet. Beyond this, the oldest silent one of this address is closed for a new one. Raise it where many devices share an address (NAT, simulations).",
    ),
  reservedForKnownAddresses: z
    .number()
    .int()
    .nonnegative()
    .default(256)
    .describe(
      "Number of connections, out of maxUnknownConnections, that only addresses may use from which a device was authenticated before.",
    ),
  maxConnectionsPerAddress: count()
    .default(5_000)
    .describe("Number of open connections from one IP address."),
  maxSubscriptions: count().default(8).describe("Number of subscriptions of one device."),
  maxRetainedBytesPerDevice: count()
    .default(2 * maxMessageBytes)
    .describe("Bytes of the retained messages of one device (state and birth)."),
  maxRetainedBytes: count()
    .default(256 * MiB)
    .describe("Bytes of the retained messages of all devices."),
  maxBacklogBytes: count()
    .default(8 * MiB)
    .describe("Bytes sent to one device that its link has not accepted yet. Further messages are dropped."),
  maxQueuedBytes: count()
    .default(8 * MiB)
    .describe(
      "Bytes of one device's messages that wait to be handled. Beyond this, the server stops reading from the device, or from the external broker.",
    ),
});

export type BrokerLimits = Readonly<z.infer<typeof brokerLimitsSchema>>;

export const defaultBrokerLimits: BrokerLimits = brokerLimitsSchema.parse({});
