/** Defines the parts that a conversation needs, and what it reports to. */
import type { StemmaError } from "../../shared/errors.js";
import type { Clock, Log } from "../../shared/ports.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { Enrolment } from "../../shared/trust/enrolment.js";
import type { DeviceKey } from "../../shared/trust/keys.js";
import type {
  Birth,
  Body,
  BodyOf,
  Command,
  CommandResult,
  Offer,
  Receipt,
} from "../../shared/wire/messages.js";
import type { Outbox } from "../outbox/outbox.js";
import type { OutboxEntry } from "../outbox/outbox-state.js";
import type { Uploads } from "../outbox/uploads.js";
import type { ClockError } from "./clock-error.js";
import type { RestoreOwner } from "../releases/release-trust.js";
import type { ServerMessages } from "./server-messages.js";

export interface ConversationOptions {
  readonly enrolment: Enrolment;
  readonly deviceKey: DeviceKey;
  readonly outbox: Outbox;
  readonly uploads: Uploads;
  readonly clock: Clock;
  readonly clockError: ClockError;
  /** Checks the server's messages; a birth asks it what to be signed for. */
  readonly messages: Pick<ServerMessages, "opened" | "challenge">;
  readonly log: Log;
  /** The parts of a birth that the outbox does not know. */
  readonly birth: () => Pick<
    Birth,
    "agentVersion" | "profile" | "runtime" | "oldestProtocol" | "releaseSet" | "releasePolicy"
  >;
  /** True if a version is announced as a claim (agent/outbox/claim-choice.ts). */
  isClaim(entry: OutboxEntry): Promise<boolean>;
  send(body: Body, options?: { readonly correlation?: string }): boolean;
  /** See ServerTrust. */
  restoreOwner(): RestoreOwner | undefined;
  /** The server does not admit this device for now. */
  onNotAdmitted(reason: string): void;
}

export interface ConversationHandlers {
  /** The server has proven its history in this session, and is believed. */
  /** @param serverMs the time that the server has signed */
  onWelcomed(serverMs: number): void;
  /** A receipt of one of this line's versions is kept. */
  onReceipt(line: string, receipt: Receipt): void;
  /**
   * `isEcho`: the server does not know yet that the line has run this version, so it does not ask the line to
   * go back to it.
   */
  onOffer(offer: Offer, isEcho: boolean): void;
  /** Returns true where the owner's statement of the time is new here. */
  onOwnerTime(statement: string): Promise<boolean>;
  /**
   * Resolves when it is taken or refused: an offer behind it may depend on it. Returns whether what is trusted changed.
   */
  onReleasePart(part: BodyOf<"releasePart">): Promise<boolean>;
  onManifest(part: BodyOf<"manifest">): void;
  /** The server refuses to serve a transfer. Returns whether it was a download of this device. */
  onTransferRefused(transfer: string, error: StemmaError): boolean;
  /** @param request the server's request that the command belongs to */
  onCommand(command: Command, request: string | undefined): Promise<CommandResult>;
  /** Called with something that a person and the server should know: refused, lost, distrusted. */
  onEvent(name: string, text: string, line: string, versionId?: Hash): void;
}
