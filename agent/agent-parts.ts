/** What an agent is made of, and what it does when something happens in one of its parts. Types only. */
import type { RecentEvents } from "../shared/adapters/recent-log.js";
import type { StemmaError } from "../shared/errors.js";
import type { Clock, Files, Log, Random } from "../shared/ports.js";
import type { Hash } from "../shared/tensor/tensor.js";
import type { evaluateInChild } from "../shared/train/evaluate-in-child.js";
import type { trainInChild } from "../shared/train/train-in-child.js";
import type { Enrolment } from "../shared/trust/enrolment.js";
import type { DeviceKey } from "../shared/trust/keys.js";
import type { Command, CommandResult, Offer, Receipt } from "../shared/wire/messages.js";
import type { OwnerCertificate } from "./identity/owner-certificate.js";
import type { LinkIdentity } from "./link/link.js";
import type { AgentConfig } from "./settings/config.js";
import type { Profile } from "./settings/profile.js";
import type { ServedSettings } from "./settings/served-settings.js";
import type { LineEvaluator } from "./trainer/evaluator.js";

export interface AgentParts {
  readonly home: string;
  readonly version: string;
  readonly enrolment: Enrolment;
  /** Path of the enrolment file. */
  readonly enrolmentPath: string;
  readonly deviceKey: DeviceKey;
  /** Where the device has a certificate of its owner's authority. */
  readonly ownerCertificate?: OwnerCertificate | undefined;
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
