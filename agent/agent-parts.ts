/**
 * The parts of an agent: what it is given, its stores, its services, and what it does when something happens in one
 * of them. Types only.
 */
import type { RecentEvents } from "../shared/adapters/recent-log.js";
import type { StemmaError } from "../shared/errors.js";
import type { Clock, Files, Log, Random } from "../shared/ports.js";
import type { Hash } from "../shared/tensor/tensor.js";
import type { evaluateInChild } from "../shared/train/evaluate-in-child.js";
import type { TrainingBackends } from "./backend/training-backend.js";
import type { trainInChild } from "../shared/train/train-in-child.js";
import type { Enrolment } from "../shared/trust/enrolment.js";
import type { DeviceKey } from "../shared/trust/keys.js";
import type { Command, CommandResult, Offer, Receipt } from "../shared/wire/messages.js";
import type { CurrentStore } from "./current/current-store.js";
import type { Credentials } from "./identity/credentials.js";
import type { DeviceTime } from "./identity/device-time.js";
import type { OwnerCertificate } from "./identity/owner-certificate.js";
import type { Intake } from "./intake/intake.js";
import type { Activator } from "./lines/activator.js";
import type { SwitchHooks } from "./lines/switch-hooks.js";
import type { Link, LinkIdentity } from "./link/link.js";
import type { SessionCounter } from "./link/session-counter.js";
import type { Downloads } from "./offers/downloads.js";
import type { Offers } from "./offers/offers.js";
import type { Outbox } from "./outbox/outbox.js";
import type { Uploads } from "./outbox/uploads.js";
import type { OwnRecipes } from "./recipes/own-recipes.js";
import type { ReleaseTrust } from "./releases/release-trust.js";
import type { DiskUse } from "./resources/disk-budget.js";
import type { FileSaver } from "./saving/save-file.js";
import type { Conversation } from "./session/conversation.js";
import type { AgentConfig } from "./settings/config.js";
import type { Profile } from "./settings/profile.js";
import type { ServedSettings } from "./settings/served-settings.js";
import type { StopAsked } from "./control/stop-asked.js";
import type { LineEvaluator } from "./trainer/evaluator.js";
import type { Trainer } from "./trainer/trainer.js";
import type { KeptStates } from "./trainer/kept-states.js";
import type { SegmentsAgain } from "./trainer/segments-again.js";
import type { LiveTrials } from "./trials/live-trials.js";

export interface AgentParts {
  readonly home: string;
  readonly version: string;
  readonly enrolment: Enrolment;
  /** Path of the enrolment file. */
  readonly enrolmentPath: string;
  readonly deviceKey: DeviceKey;
  /** The certificate of the device's owner's authority; absent where the device has none. */
  readonly ownerCertificate?: OwnerCertificate | undefined;
  readonly config: AgentConfig;
  readonly profile: Profile;
  readonly files: Files;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  /** The newest events of the log. */
  readonly recent: RecentEvents;
  /** The settings that the server has changed. */
  readonly served: ServedSettings;
  readonly train: typeof trainInChild;
  readonly evaluate: typeof evaluateInChild;
  readonly runtime: string;
  /** User id that owns agent.json, and so must own what external trainers run; undefined without user ids. */
  readonly commandOwner: number | undefined;
  /** Called when the outbox can no longer store anything: the agent has to be started again. */
  readonly onFatal: (error: StemmaError) => void;
  /** Called when a command has asked the agent to end and it is at a point where it may. */
  readonly onStopAsked?: ((asked: StopAsked) => void) | undefined;
  readonly utcOffsetMinutes: () => number;
  /** Another network than this machine's, such as a simulated link. */
  readonly network?: ((own: LinkIdentity) => LinkIdentity) | undefined;
  /** Memory for decoded tensors that others are coded against; the store's default when absent. */
  readonly decodedCacheBytes?: number | undefined;
  /** Measures versions instead of the engine. */
  readonly evaluator?: LineEvaluator | undefined;
}

/** The stores of an agent on its disk. */
export interface Stores {
  readonly counter: SessionCounter;
  readonly outbox: Outbox;
  readonly current: CurrentStore;
  readonly intakes: ReadonlyMap<string, Intake>;
}

/** The parts of a composed agent. */
export interface AgentServices extends Omit<Stores, "counter"> {
  readonly link: Link;
  readonly credentials: Credentials;
  readonly time: DeviceTime;
  readonly conversation: Conversation;
  readonly uploads: Uploads;
  readonly downloads: Downloads;
  readonly offers: Offers;
  readonly activator: Activator;
  readonly hooks: SwitchHooks;
  readonly releases: ReleaseTrust;
  readonly recipes: OwnRecipes;
  readonly backends: TrainingBackends;
  readonly trainer: Trainer;
  readonly evaluator: LineEvaluator;
  readonly saver: FileSaver;
  readonly trials: LiveTrials;
  readonly states: KeptStates;
  readonly segments: SegmentsAgain;
  diskUse(): Promise<DiskUse>;
}

/** The reactions of the agent when something happens in one of its parts. */
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
