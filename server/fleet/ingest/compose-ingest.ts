/**
 * Creates the parts of one fleet's ingest and connects them: which part is notified of what happens in which.
 */
import type { FullPart } from "../../services/context/room-for-models.js";
import { messageOf, messageWithCode } from "../../../shared/error-text.js";
import { isStemmaError } from "../../../shared/errors.js";
import type { Clock, Files, Log, Random } from "../../../shared/ports.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { WindowBudget } from "../../../shared/wire/transfer/window-budget.js";
import type { BrokerPort } from "../../access/broker/broker-port.js";
import type { EventHub } from "../../interface/events/event-hub.js";
import { storeNamedEngine } from "../../services/context/own-engine.js";
import type { VersionSummary } from "../../storage/repository/answers/version-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import type { ServerSigner } from "../../storage/repository/home.js";
import { ActivationReports } from "./sessions/activation-reports.js";
import { Admission, type AdmissionParts } from "./sessions/admission.js";
import { Claims, type ClaimReplays } from "./uploads/claims.js";
import { CodedDownloads } from "./downloads/coded-downloads.js";
import { CommandRelay } from "./sessions/commands.js";
import { startConfirmations, type Confirmations, type ReleasePolicy } from "./uploads/confirmations.js";
import { Deliveries } from "./downloads/deliveries.js";
import { ConnectionRefusals } from "./sessions/connection-refusals.js";
import { DeviceDoubts } from "./sessions/device-doubts.js";
import { deviceSender, type DeviceSender } from "./sessions/device-sender.js";
import { DeviceSessions } from "./sessions/device-sessions.js";
import { Downloads } from "./downloads/downloads.js";
import { SendRates } from "./downloads/send-rates.js";
import { DeviceQuota } from "./sessions/device-quota.js";
import { HistoryProofs } from "./sessions/history-proofs.js";
import type { IngestLimits } from "./limits.js";
import { LineIndex } from "./uploads/line-index.js";
import { Offers } from "./downloads/offers.js";
import { Receipts } from "./uploads/receipts.js";
import { RecipeSync } from "./sessions/recipe-sync.js";
import { SettingsSync } from "./sessions/settings-sync.js";
import { openSpoolFolder, type SpoolFolder } from "./uploads/spool.js";
import { TransferPredictor } from "./downloads/transfer-predictor.js";
import { UploadScheduler } from "./uploads/upload-scheduler.js";

export interface FleetIngestParts {
  readonly root: string;
  readonly repository: FleetRepository;
  readonly signer: ServerSigner;
  readonly broker: Pick<BrokerPort, "publish" | "disconnect">;
  readonly clock: Clock;
  readonly random: Random;
  readonly files: Files;
  readonly log: Log;
  readonly events: EventHub;
  readonly limits: IngestLimits;
  /** One for all fleets of the process. */
  readonly budget: WindowBudget;
  readonly spoolFolder: string;
  readonly releasePolicy: ReleasePolicy;
  readonly serverVersion: string;
  /** Replays of claims; undefined: none is taken. */
  readonly claimReplays?: ClaimReplays | undefined;
  /** Judges devices' certificates; undefined: no device has one. */
  readonly certificates?: AdmissionParts["certificates"];
  /** Returns what has no space for new models; undefined: there is space. */
  whatIsFull(): Promise<FullPart | undefined>;
}

export interface IngestServices {
  readonly sessions: DeviceSessions;
  readonly sender: DeviceSender;
  readonly admission: Admission;
  readonly commands: CommandRelay;
  readonly offers: Offers;
  readonly downloads: Downloads;
  readonly codedDownloads: CodedDownloads;
  readonly confirmations: Confirmations;
  readonly spools: SpoolFolder;
  readonly scheduler: UploadScheduler;
  readonly lines: LineIndex;
  readonly receipts: Receipts;
  readonly proofs: HistoryProofs;
  readonly activations: ActivationReports;
  readonly quota: DeviceQuota;
  readonly doubts: DeviceDoubts;
  readonly refusals: ConnectionRefusals;
  readonly settings: SettingsSync;
  readonly recipes: RecipeSync;
  readonly claims: Claims;
  readonly predictor: TransferPredictor;
}

/** Opens the folders of unfinished transfers and connects everything. */
export async function composeIngest(parts: FleetIngestParts): Promise<IngestServices> {
  const { root, repository, signer, broker, clock, random, files, log, events, limits } = parts;
  const { fleet } = repository;
  const spools = await openSpoolFolder(parts, parts.spoolFolder, limits);
  const downloadFolder = `${parts.spoolFolder}-out`;
  const codedDownloads = await CodedDownloads.open({
    repository,
    files,
    clock,
    log,
    limits,
    folder: downloadFolder,
  });
  const sessions = new DeviceSessions();
  const sessionOf = (device: string) => sessions.get(device);
  const generationOf = (device: string) => repository.device(device)?.generation;
  const sender = deviceSender({ root, fleet, broker, signer, clock, log, sessionOf, generationOf });
  const proofs = new HistoryProofs(repository);
  const receipts = new Receipts({ repository, signer, sender, events, log, proofs, sessionOf });
  const lines = new LineIndex(repository);
  const claims = new Claims({ repository, limits, log, replays: parts.claimReplays });
  const quota = factsQuota(parts);
  const deliveries = new Deliveries({ repository, clock });
  const offers = composeOffers(parts, { sender, deliveries, sessions });
  const confirmations = composeConfirmations(parts, receipts);
  const commands = new CommandRelay(sender, clock, random, log);
  return {
    sessions,
    sender,
    spools,
    receipts,
    proofs,
    lines,
    offers,
    confirmations,
    codedDownloads,
    quota,
    doubts: new DeviceDoubts(),
    refusals: new ConnectionRefusals(),
    claims,
    predictor: new TransferPredictor({ repository, codedDownloads, files, coding: limits.coding }),
    admission: composeAdmission(parts, sessions, quota),
    commands,
    settings: new SettingsSync({ repository, commands, clock, log }),
    recipes: new RecipeSync({ repository, commands, log }),
    downloads: new Downloads({
      repository,
      sender,
      clock,
      log,
      limits,
      codedDownloads,
      deliveries,
      rates: new SendRates({ repository, clock, fleetBytesPerSecond: limits.sendBytesPerSecond }),
      quota: fetchQuota(parts),
    }),
    scheduler: composeScheduler(parts, {
      spools,
      sender,
      lines,
      confirmations,
      receipts,
      quota,
      claims,
      offers,
    }),
    activations: composeActivations(parts, quota, offers),
  };
}

/** The facts that the journal takes of one device. */
function factsQuota({ clock, log, limits }: FleetIngestParts): DeviceQuota {
  return new DeviceQuota({
    perHour: limits.factsPerHour,
    atOnce: limits.factsAtOnce,
    clock,
    onExceeded: (device, waitMs) => {
      log.warn("device-over-quota", {
        device,
        waitMs,
        text: `${device} reports more than the journal takes of one device (limits.ingest.factsPerHour); it is asked to wait`,
      });
    },
  });
}

/** The downloads that one device may begin. */
function fetchQuota({ clock, log, limits }: FleetIngestParts): DeviceQuota {
  return new DeviceQuota({
    perHour: limits.fetchesPerHour,
    atOnce: limits.fetchesAtOnce,
    clock,
    onExceeded: (device, waitMs) => {
      log.warn("device-over-quota", {
        device,
        waitMs,
        text: `${device} fetches models more often than one device may (limits.ingest.fetchesPerHour); it is asked to wait`,
      });
    },
  });
}

function composeOffers(
  parts: FleetIngestParts,
  {
    sender,
    deliveries,
    sessions,
  }: {
    readonly sender: DeviceSender;
    readonly deliveries: Deliveries;
    readonly sessions: DeviceSessions;
  },
): Offers {
  const { repository, signer, clock, log, events } = parts;
  const { fleet } = repository;
  const withoutPipeline = new Set<Hash>();
  return new Offers({
    repository,
    signer,
    sender,
    clock,
    log,
    provenLength: (device) => sessions.get(device)?.provenLength,
    onOffered: (device, line, versionId, carried) => {
      deliveries.offered(device, versionId, carried);
      events.emit({ event: "offered", fleet, device, line, versionId });
    },
    onPipelineLost: (versionId) => {
      if (withoutPipeline.has(versionId)) return;
      withoutPipeline.add(versionId);
      log.warn("pipeline-lost", {
        versionId,
        text: "goes to devices without the input pipeline that its release has: the description of its data was redacted, or the base that has it was collected. Applications that need one must not run it; release it again without one (stemma release create --no-pipeline)",
      });
    },
  });
}

function composeActivations(parts: FleetIngestParts, quota: DeviceQuota, offers: Offers): ActivationReports {
  const { repository, clock, events } = parts;
  const { fleet } = repository;
  return new ActivationReports({
    repository,
    clock,
    quota,
    onActivated: (device, line, versionId) => {
      offers.activated(device, { line, versionId });
      events.emit({ event: "activated", fleet, device, line, versionId });
    },
    onUnanswered: (device) => {
      inBackground(parts, offers.offerAll(device));
    },
  });
}

function composeAdmission(parts: FleetIngestParts, sessions: DeviceSessions, quota: DeviceQuota): Admission {
  const { root, repository, broker, clock, log, events } = parts;
  const { fleet } = repository;
  return new Admission({
    root,
    repository,
    clock,
    log,
    quota,
    certificates: parts.certificates,
    onAdmitted: (device, session) => {
      sessions.admitted(device, session);
    },
    onQuarantined: (device, because) => {
      events.emit({ event: "device-quarantined", fleet, device, because });
      log.warn("device-quarantined", { device, because });
      inBackground(parts, broker.disconnect({ fleet, device }));
    },
  });
}

function composeConfirmations(parts: FleetIngestParts, receipts: Receipts): Confirmations {
  const { repository, log, events, limits } = parts;
  return startConfirmations({
    repository,
    log,
    maxConcurrent: limits.confirmations,
    maxConcurrentBytes: limits.confirmationBytes,
    releasePolicyOf: () => parts.releasePolicy,
    onStored: (summary) => {
      inBackground(parts, receipts.issue(summary, "stored"));
    },
    onReleased: (summary) => {
      inBackground(parts, receipts.issue(summary, "released"));
    },
    onDamaged: (versionId, error) => {
      const code = isStemmaError(error) ? error.code : "INTERNAL";
      const message = messageOf(error);
      const { device = "", line = "" } = repository.get(versionId)?.record ?? {};
      log.error("model-damaged", { versionId, code, message });
      events.emit({
        event: "damaged",
        fleet: repository.fleet,
        device,
        line,
        versionId,
        code,
        message,
      });
    },
  });
}

function composeScheduler(
  parts: FleetIngestParts,
  services: Pick<
    IngestServices,
    "spools" | "sender" | "lines" | "confirmations" | "receipts" | "quota" | "claims" | "offers"
  >,
): UploadScheduler {
  const { repository, budget, clock, random, log, limits, events } = parts;
  const { spools, sender, lines, confirmations, receipts, claims, offers } = services;
  const offerAgain = (device: string): void => {
    inBackground(parts, offers.recorded(device));
  };
  return new UploadScheduler({
    claims,
    repository,
    spools,
    budget,
    sender,
    clock,
    random,
    log,
    limits,
    events,
    predecessorOf: ({ device, line, sequence }) => lines.find(device, line, sequence - 1)?.versionId,
    onRecorded: (summary) => {
      services.quota.charge(summary.record.device);
      confirmations.add(summary.versionId);
      inBackground(parts, receipts.issue(summary, "recorded"));
      offerAgain(summary.record.device);
      // Claims of what was trained from it may be replayed now.
      parts.claimReplays?.wake();
      storeNamedEngine(repository, summary.record.uses?.engine).catch((error: unknown) => {
        log.warn("engine-not-stored", { versionId: summary.versionId, message: messageOf(error) });
      });
    },
    onClaimed: (claim) => {
      services.quota.charge(claim.record.device);
      lines.claimed(claim);
      inBackground(parts, receipts.claimed(claim));
      offerAgain(claim.record.device);
      parts.claimReplays?.wake();
    },
    onAlreadyRecorded: (device, summary) => {
      inBackground(parts, answerRecorded(services, device, summary));
    },
  });
}

/** Answers the announcement of a version that is recorded already: the device gets the same receipts. */
export async function answerRecorded(
  { receipts, confirmations }: Pick<IngestServices, "receipts" | "confirmations">,
  device: string,
  summary: VersionSummary,
): Promise<void> {
  await receipts.repeat(device, summary);
  if (summary.state === "recorded" || summary.state === "stored") confirmations.add(summary.versionId);
}

/** Work that nothing waits for: a failure is logged, since an unhandled one would end the server. */
function inBackground(parts: Pick<FleetIngestParts, "log">, work: Promise<void>): void {
  work.catch((error: unknown) => {
    parts.log.error("background-work-failed", { text: messageWithCode(error) });
  });
}
