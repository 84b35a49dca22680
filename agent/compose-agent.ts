/**
 * Creates the agent's parts and connects them: which part is notified of what happens in which. main.ts makes
 * the ports.
 */
import { join } from "node:path";
import { messageWithCode } from "../shared/error-text.js";
import { isStemmaError, type StemmaError } from "../shared/errors.js";
import type { Clock, Files, Log, Random } from "../shared/ports.js";
import { chooseBackend } from "../shared/train/backends/choose.js";
import type { evaluateInChild } from "../shared/train/evaluate-in-child.js";
import type { trainInChild } from "../shared/train/train-in-child.js";
import type { Hash } from "../shared/tensor/tensor.js";
import type { Enrolment } from "../shared/trust/enrolment.js";
import type { DeviceKey } from "../shared/trust/keys.js";
import { certificateDue } from "../shared/wire/device-events.js";
import { oldestProtocolVersion } from "../shared/wire/limits.js";
import type { Block, Command, CommandResult, ManifestPart, Offer, Receipt } from "../shared/wire/messages.js";
import { CurrentStore } from "./current/current-store.js";
import { transfersFolder } from "./home/agent-home.js";
import { Intake } from "./intake/intake.js";
import type { RecentEvents } from "../shared/adapters/recent-log.js";
import { LineForms } from "./lines/line-forms.js";
import { Activator } from "./lines/activator.js";
import { SwitchHooks } from "./lines/switch-hooks.js";
import { Credentials, withPresentKeys } from "./identity/credentials.js";
import { Link, type LinkIdentity } from "./link/link.js";
import { mqttOptionsOf } from "./link/mqtt-options.js";
import { Pacer } from "./link/pacer.js";
import { SessionCounter } from "./link/session-counter.js";
import { pinOf, policyOf } from "./releases/release-pin.js";
import { ReleaseTrust } from "./releases/release-trust.js";
import { OwnRecipes } from "./recipes/own-recipes.js";
import { Downloads } from "./offers/downloads.js";
import { Offers } from "./offers/offers.js";
import { isClaimed } from "./outbox/claim-choice.js";
import { Outbox } from "./outbox/outbox.js";
import { pinnedSamples } from "./outbox/outbox-state.js";
import { UploadCoding } from "./outbox/upload-coding.js";
import { Uploads } from "./outbox/uploads.js";
import { measureDisk } from "./measure-disk.js";
import { judgeDisk, type DiskUse } from "./resources/disk-budget.js";
import { ClockError } from "./session/clock-error.js";
import { FileSaver } from "./saving/save-file.js";
import { Conversation } from "./session/conversation.js";
import { ServerMessages } from "./session/server-messages.js";
import type { AgentConfig } from "./settings/config.js";
import type { Profile } from "./settings/profile.js";
import type { ServedSettings } from "./settings/served-settings.js";
import { Evaluator, type LineEvaluator } from "./trainer/evaluator.js";
import { Trainer } from "./trainer/trainer.js";
import { LiveTrials } from "./trials/live-trials.js";

export interface AgentParts {
  readonly home: string;
  readonly version: string;
  readonly enrolment: Enrolment;
  /** Path of the enrolment file. */
  readonly enrolmentPath: string;
  readonly deviceKey: DeviceKey;
  readonly config: AgentConfig;
  readonly profile: Profile;
  readonly files: Files;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  /** The newest events of the log. */
  readonly recent: RecentEvents;
  /** What the server has set. */
  readonly served: ServedSettings;
  readonly train: typeof trainInChild;
  readonly evaluate: typeof evaluateInChild;
  readonly runtime: string;
  /** User id that owns agent.json, and so must own what external trainers run; undefined without user ids. */
  readonly commandOwner: number | undefined;
  /** Called when the outbox can no longer store anything: the agent has to be started again. */
  readonly onFatal: (error: StemmaError) => void;
  readonly utcOffsetMinutes: () => number;
  /** Another network than this machine's, such as a simulated link. */
  readonly network?: ((own: LinkIdentity) => LinkIdentity) | undefined;
  /** Memory for decoded tensors that others are coded against; the store's default when absent. */
  readonly decodedCacheBytes?: number | undefined;
  /** Measures versions instead of the engine. */
  readonly evaluator?: LineEvaluator | undefined;
}

/** What the agent does when something happens in one of its parts. */
export interface AgentReactions {
  /** A receipt of one of this line's versions is in the outbox. */
  onReceipt(line: string, kind: Receipt["kind"]): void;
  onOffer(offer: Offer): void;
  onCommand(command: Command, request: string | undefined): Promise<CommandResult>;
  /** A fine-tuned model of this line is in the outbox. */
  onTrained(line: string): void;
  /** Reports an event in the local log and to the server. */
  report(name: string, text: string, line: string, versionId?: Hash): void;
}

/** What is on the disk: outbox, installed versions, samples of each line, session counter. */
interface Stores {
  readonly counter: SessionCounter;
  readonly outbox: Outbox;
  readonly current: CurrentStore;
  readonly intakes: ReadonlyMap<string, Intake>;
}

export interface AgentServices extends Omit<Stores, "counter"> {
  readonly link: Link;
  readonly credentials: Credentials;
  readonly conversation: Conversation;
  readonly uploads: Uploads;
  readonly downloads: Downloads;
  readonly offers: Offers;
  readonly activator: Activator;
  readonly hooks: SwitchHooks;
  readonly releases: ReleaseTrust;
  readonly recipes: OwnRecipes;
  readonly trainer: Trainer;
  readonly evaluator: LineEvaluator;
  readonly saver: FileSaver;
  readonly trials: LiveTrials;
  diskUse(): Promise<DiskUse>;
}

/** Milliseconds after which a download that was not continued is removed. */
const oldTransferMs = 7 * 24 * 3_600_000;

/** The folder whose files are read as samples of a line. */
export function inboxOf({ config, home }: Pick<AgentParts, "config" | "home">, line: string): string {
  return config.lines[line]?.watch ?? join(home, "inbox", line);
}

/** The backend that trains on this device, and why. */
export function backendOf({ profile }: Pick<AgentParts, "profile">): string {
  const choice = chooseBackend({ preferred: profile.training.backends[0] });
  return `${choice.backend}: ${choice.reason}`;
}

/** Opens what is on the disk and connects the parts. Nothing runs yet. */
export async function composeAgent(given: AgentParts, reactions: AgentReactions): Promise<AgentServices> {
  const credentials = new Credentials({
    ...given,
    path: given.enrolmentPath,
    askOverMqtt: (why) => {
      if (conversation.isWelcomed) reactions.report(certificateDue, why, "");
      return conversation.isWelcomed;
    },
  });
  const parts: AgentParts = { ...given, enrolment: withPresentKeys(given.enrolment, credentials) };
  const { files, home, profile, enrolment, clock, log } = parts;
  const stores = await openStores(parts);
  const { outbox, current, intakes } = stores;
  const clockError = new ClockError();
  const { lines } = enrolment;
  const diskUse = (): Promise<DiskUse> => measureDisk({ files, home, lines, ...stores });
  const common = {
    files,
    home,
    config: parts.config,
    version: parts.version,
    profile,
    enrolment,
    outbox,
    clock,
    log,
    diskUse,
    clockErrorMs: () => clockError.errorMs(clock.monotonic()),
  };
  const messages = new ServerMessages(parts);
  const releases = await openReleases(parts, messages);
  const recipes = await OwnRecipes.open({
    ...parts,
    releases,
    onChange: () => {
      trainer.wake();
    },
  });
  const link = composeLink(
    parts,
    { counter: stores.counter, credentials },
    { conversation: () => conversation, downloads: () => downloads },
    messages,
  );
  const uploads = composeUploads(parts, stores, link, diskUse);
  const downloads = new Downloads({
    files,
    folder: transfersFolder(parts.home),
    clock,
    blockBytes: profile.link.blockBytes,
    window: profile.link.window,
    send: (body) => link.send(body),
  });
  const conversation = composeConversation(parts, reactions, {
    outbox,
    uploads,
    downloads,
    link,
    messages,
    credentials,
    clockError,
    diskUse,
    releases,
  });
  const hooks = new SwitchHooks({ ...common, commandOwner: parts.commandOwner });
  const activator = new Activator({ ...common, current, releases, hooks, session: () => link.session });
  const trainer = new Trainer({
    ...common,
    activator,
    intakes,
    recipes,
    random: parts.random,
    commandOwner: parts.commandOwner,
    train: parts.train,
    isOnline: () => conversation.isWelcomed,
    isSwitchedOff: () => !parts.served.trains,
    utcOffsetMinutes: parts.utcOffsetMinutes,
    onTrained: (line) => {
      reactions.onTrained(line);
    },
    onEvent: (name, text, line) => {
      reactions.report(name, text, line);
    },
  });
  const offers = new Offers({
    ...common,
    downloads,
    releases,
    resumesOptimizer: (line) => common.config.lines[line]?.parameters["resumeOptimizer"] === true,
  });
  const evaluator =
    parts.evaluator ?? new Evaluator({ ...common, activator, intakes, evaluate: parts.evaluate });
  const saver = new FileSaver({ ...common, random: parts.random });
  const trials = await LiveTrials.open({
    ...common,
    activator,
    releases,
    lines,
    onEvent: (name, text, line) => {
      reactions.report(name, text, line);
    },
    inUse: () => {
      const base = trainer.running?.base;
      return new Set([...evaluator.inUse, ...(base === undefined ? [] : [base])]);
    },
  });
  parts.served.onChange(() => {
    trainer.wake();
  });
  return {
    outbox,
    current,
    intakes,
    link,
    credentials,
    conversation,
    uploads,
    downloads,
    offers,
    activator,
    hooks,
    releases,
    recipes,
    trainer,
    evaluator,
    saver,
    trials,
    diskUse,
  };
}

async function openReleases(
  { files, home, enrolment, config, log }: AgentParts,
  messages: ServerMessages,
): Promise<ReleaseTrust> {
  const pin = await pinOf(files, home, enrolment.releases);
  const policy = policyOf(config.releases, pin, enrolment.releases?.policy);
  return await ReleaseTrust.open({
    files,
    home,
    pin,
    policy,
    serverTimeMs: () => messages.serverTimeMs(),
    onEvent: (name, text) => {
      log.warn(name, { text });
    },
  });
}

async function openStores(parts: AgentParts): Promise<Stores> {
  const { files, home, clock, random, log, profile, enrolment, onFatal, decodedCacheBytes } = parts;
  await clearOldTransfers(files, transfersFolder(parts.home), clock.now());
  await UploadCoding.clear(files, transfersFolder(parts.home));
  const counter = await SessionCounter.open(files, home);
  const outbox = await Outbox.open({
    files,
    folder: join(home, "outbox"),
    ...{ clock, random, log, onFatal, decodedCacheBytes },
  });
  const current = await CurrentStore.open(files, home, clock);
  const forms = new LineForms({ files, config: parts.config, outbox, current });
  const intakes = new Map<string, Intake>();
  for (const line of enrolment.lines) {
    const intake = await Intake.open({
      files,
      folder: join(home, "samples", line),
      line,
      limits: profile.samples,
      clock,
      log,
      pins: () => pinnedSamples(outbox.state, line),
      neededForm: () => forms.of(line),
    });
    intakes.set(line, intake);
    await files.makeFolder(inboxOf(parts, line));
  }
  return { counter, outbox, current, intakes };
}

async function clearOldTransfers(files: Files, folder: string, nowMs: number): Promise<void> {
  for (const name of await files.list(folder)) {
    const stat = await files.stat(join(folder, name));
    if (stat !== undefined && nowMs - stat.modifiedMs > oldTransferMs) await files.remove(join(folder, name));
  }
}

/** The link calls parts that need the link themselves, so they are passed as functions. */
function composeLink(
  { enrolment, deviceKey, profile, clock, random, log, network }: AgentParts,
  { counter, credentials }: { readonly counter: SessionCounter; readonly credentials: Credentials },
  later: { conversation(): Conversation; downloads(): Downloads },
  messages: ServerMessages,
): Link {
  return new Link(
    {
      enrolment,
      deviceKey,
      counter,
      clock,
      random,
      log,
      mqtt: mqttOptionsOf(profile),
      identity: network?.(credentials) ?? credentials,
    },
    {
      onOpen: (session) => {
        log.info("connected", { session, text: `connected in session ${session}` });
        later.conversation().onOpen(session);
      },
      onClosed: () => {
        later.conversation().onClosed();
      },
      onMessage: (payload) => {
        const message = messages.read(payload);
        if (message !== undefined) later.conversation().receive(message);
      },
      onBlock: (transfer, block) => {
        later.downloads().onBlock(transfer, block);
      },
    },
  );
}

function composeUploads(
  parts: AgentParts,
  { outbox }: Stores,
  link: Link,
  diskUse: () => Promise<DiskUse>,
): Uploads {
  const { files, profile, clock, log, served } = parts;
  const { objects } = outbox;
  const pacer = new Pacer(() => served.bytesPerSecond(profile.link.bytesPerSecond), clock.monotonic());
  const coding = new UploadCoding({
    objects,
    files,
    folder: transfersFolder(parts.home),
    clock,
    log,
    link: profile.link,
    memoryLimitMb: profile.training.memoryLimitMb,
    mayTake: async (bytes) => judgeDisk(profile.disk, await diskUse(), "report", bytes).allowed,
  });
  const send = async (transfer: string, message: ManifestPart | Block): Promise<boolean> => {
    if (message.type === "manifest") return link.send(message);
    const waitMs = pacer.book(message.data.length, clock.monotonic());
    if (waitMs > 0)
      await new Promise<void>((resolve) => {
        clock.after(waitMs, resolve);
      });
    return await link.sendBlock(transfer, message);
  };
  return new Uploads({ objects, clock, log, blockBytes: profile.link.blockBytes, coding, send });
}

function composeConversation(
  parts: AgentParts,
  reactions: AgentReactions,
  services: Pick<AgentServices, "outbox" | "uploads" | "downloads" | "link"> & {
    readonly clockError: ClockError;
    readonly messages: ServerMessages;
    readonly releases: ReleaseTrust;
    readonly credentials: Credentials;
    readonly diskUse: () => Promise<DiskUse>;
  },
): Conversation {
  const { enrolment, deviceKey, clock, log, profile } = parts;
  const { outbox, uploads, downloads, link, clockError, messages, credentials, diskUse, releases } = services;
  const conversation = new Conversation(
    {
      enrolment,
      deviceKey,
      outbox,
      uploads,
      clock,
      clockError,
      messages,
      log,
      birth: () => ({
        agentVersion: parts.version,
        profile: profile.name,
        runtime: `${parts.runtime}; ${backendOf(parts)}`,
        oldestProtocol: oldestProtocolVersion,
        ...releases.birth(),
      }),
      isClaim: async (entry) =>
        isClaimed(outbox.state, entry, {
          approach: parts.config.lines[entry.line]?.approach ?? "parameters",
          isDiskTight: !judgeDisk(profile.disk, await diskUse(), "train", 2 * entry.tensorBytes).allowed,
          nowMs: clock.now(),
        }),
      send: (body, options) => link.send(body, options),
      restoreOwner: () => releases.restoreOwner(enrolment.fleet),
      onNotAdmitted: (reason) => {
        link.refuse(reason);
      },
    },
    {
      onWelcomed: (serverMs) => {
        credentials.stated(serverMs);
        void credentials.renewIfDue();
        releases.opened();
        downloads.reconnected();
      },
      onReceipt: (line, receipt) => {
        reactions.onReceipt(line, receipt.kind);
      },
      onOffer: (offer, isEcho) => {
        if (isEcho) conversation.onOutboxChange();
        else reactions.onOffer(offer);
      },
      onReleasePart: async (part) => {
        try {
          return await releases.receive(part);
        } catch (error) {
          if (!isStemmaError(error)) throw error;
          reactions.report("releases-refused", messageWithCode(error), "");
          return false;
        }
      },
      onManifest: (part) => {
        downloads.onManifest(part);
      },
      onTransferRefused: (transfer, error) => downloads.onRefused(transfer, error),
      onCommand: (command, request) => reactions.onCommand(command, request),
      onEvent: (name, text, line, versionId) => {
        reactions.report(name, text, line, versionId);
      },
    },
  );
  return conversation;
}
