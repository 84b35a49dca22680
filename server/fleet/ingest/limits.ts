/**
 * Limits of what the ingest of one fleet accepts. The schema is the documentation of `limits.ingest` in
 * server.json; a limit that is left out has its default.
 */
import * as z from "zod";
import { maxBlockBytes, maxWindow, minBlockBytes } from "../../../shared/wire/limits.js";

const KiB = 1024;
const MiB = 1024 * KiB;
const GiB = 1024 * MiB;
const minuteMs = 60_000;
const hourMs = 60 * minuteMs;

const count = (): z.ZodNumber => z.number().int().positive();

export const ingestLimitsSchema = z.strictObject({
  maxModelBytes: count()
    .default(8 * GiB)
    .describe(
      "Bytes of all tensors of one model, as announced and as its tree states. A larger model is refused.",
    ),
  maxUsesBytes: count()
    .default(8 * GiB)
    .describe(
      "Bytes of everything that one model's record `uses`: data sets, recipe, and the tensors of " +
        "checkpoints and optimizer state. More is refused.",
    ),
  maxObjectBytes: count()
    .default(64 * MiB)
    .describe(
      "Bytes of the small objects of one announcement that are sent as blocks: tree, names, measurements, attachments.",
    ),
  maxTensors: count()
    .default(100_000)
    .describe("Number of tensors of one model, those of its checkpoints and optimizer state included."),
  parkedPerDevice: count()
    .default(64)
    .describe("Number of announcements of one device that wait for their base model."),
  parkedTotal: count()
    .default(4096)
    .describe("Number of announcements of all devices of a fleet that wait for their base model."),
  parkedBytes: count()
    .default(64 * MiB)
    .describe("Bytes in memory of all announcements of a fleet that wait for their base model."),
  parkedMs: count()
    .default(10 * minuteMs)
    .describe("Milliseconds that an announcement waits for its base model before it is dropped."),
  fetchesPerHour: count()
    .default(600)
    .describe(
      "Number of fetches per hour of one device that are answered in the long run. A model takes one or two, and one more after each interruption. A device that fetches more often is asked to wait.",
    ),
  fetchesAtOnce: count()
    .default(300)
    .describe("Number of fetches of one device that are answered at once, after a quiet time."),
  factsPerHour: count()
    .default(3600)
    .describe(
      "Number of reports per hour (sessions, versions, activations) of one device that the journal takes in the long run. A device that reports more is asked to wait.",
    ),
  factsAtOnce: count()
    .default(2000)
    .describe("Number of such reports of one device that the journal takes at once, after a quiet time."),
  receptionsPerDevice: count()
    .default(8)
    .describe("Number of uploads of one device that are received at the same time."),
  waitingPerDevice: count()
    .default(64)
    .describe(
      "Number of announcements of one device that wait for an upload slot. More are refused, to be retried.",
    ),
  receptionsTotal: count()
    .default(512)
    .describe("Number of uploads of all devices of a fleet that are received at the same time."),
  waitingBytes: count()
    .default(256 * MiB)
    .describe("Bytes in memory of all announcements of a fleet that wait for an upload slot."),
  spoolBytes: count()
    .default(16 * GiB)
    .describe(
      "Bytes on disk of unfinished uploads of a fleet. The last quarter only goes to devices that have no more there than they leave to others, so that a few with large uploads do not stop all.",
    ),
  spoolBytesPerDevice: count()
    .default(12 * GiB)
    .describe(
      "Bytes of unfinished uploads of one device, so that no device takes all of `spoolBytes`; at most three quarters of that in any case.",
    ),
  spoolMs: count()
    .default(7 * 24 * hourMs)
    .describe("Milliseconds that an unfinished upload is kept on disk without progress."),
  memorySpoolBytes: count()
    .default(64 * KiB)
    .describe(
      "Bytes up to which an unfinished upload is kept in memory: after a restart, sending it again costs less than a file does.",
    ),
  sendBytesPerSecond: count()
    .min(1024)
    .nullable()
    .default(null)
    .describe(
      "Bytes a second of models that are sent to all devices of a fleet together, which share them alike. null: no limit.",
    ),
  leaseMs: count()
    .default(hourMs)
    .describe(
      "Milliseconds without progress after which a transfer no longer protects the tensors it relies on from garbage collection.",
    ),
  windowBytes: count()
    .default(4 * MiB)
    .describe(
      "Bytes of blocks that all uploads to this server may have in flight together. Besides, a link that takes a second for a block, or longer, has two in flight.",
    ),
  blockBytes: count()
    .min(minBlockBytes)
    .max(maxBlockBytes)
    .default(256 * KiB)
    .describe("Bytes of one block of a transfer, as the server asks its devices for."),
  window: count().max(maxWindow).default(8).describe("Number of blocks that one transfer has in flight."),
  claimsPerDevice: z
    .number()
    .int()
    .min(0)
    .default(8)
    .describe(
      "Number of models of one device that wait for their replay (approach `provenance`), or were not proved and wait for their parameters; of more, the parameters are requested. 0: none waits.",
    ),
  claimsTotal: count()
    .default(1000)
    .describe("Number of models of all devices of a fleet that wait for their replay."),
  claimMs: count()
    .default(10 * minuteMs)
    .describe(
      "Milliseconds that the replay of one model may take, as predicted and as it takes here. Of a longer one the parameters are requested.",
    ),
  claimMsPerHour: count()
    .default(15 * minuteMs)
    .describe(
      "Milliseconds of replays per hour that the models of one device may take in the long run. Beyond that, their parameters are requested.",
    ),
  coding: z
    .boolean()
    .default(true)
    .describe("Whether devices may send tensors coded as differences from models that this server stores."),
  confirmations: count()
    .default(8)
    .describe("Number of recorded models that are read back from disk and verified at the same time."),
  confirmationBytes: count()
    .default(16 * MiB)
    .describe(
      "Bytes of the models that are read back and verified at the same time; a larger model is read alone.",
    ),
});

export type IngestLimits = Readonly<z.infer<typeof ingestLimitsSchema>>;

/** @internal Read by tests; a server gets its limits from server.json. */
export const defaultIngestLimits: IngestLimits = ingestLimitsSchema.parse({});
