/** Connects the parts of an agent that talk to its server: the link, uploads and the conversation. */
import { messageWithCode } from "../shared/error-text.js";
import { isStemmaError } from "../shared/errors.js";
import { oldestProtocolVersion } from "../shared/wire/limits.js";
import type { Block, ManifestPart } from "../shared/wire/messages.js";
import type { AgentParts, AgentReactions, AgentServices, Stores } from "./agent-parts.js";
import { transfersFolder } from "./home/agent-home.js";
import type { Credentials } from "./identity/credentials.js";
import { Link } from "./link/link.js";
import { mqttOptionsOf } from "./link/mqtt-options.js";
import { Pacer } from "./link/pacer.js";
import type { SessionCounter } from "./link/session-counter.js";
import type { Downloads } from "./offers/downloads.js";
import { isClaimed } from "./outbox/claim-choice.js";
import { UploadCoding } from "./outbox/upload-coding.js";
import { Uploads } from "./outbox/uploads.js";
import type { ReleaseTrust } from "./releases/release-trust.js";
import { judgeDisk, type DiskUse } from "./resources/disk-budget.js";
import type { ClockError } from "./session/clock-error.js";
import { Conversation } from "./session/conversation.js";
import type { ConversationHandlers } from "./session/conversation-parts.js";
import type { ServerMessages } from "./session/server-messages.js";

/** The link calls parts that need the link themselves, so they are passed as functions. */
export function composeLink(
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
        credentials.disconnected();
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

export function composeUploads(
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

/** The parts that the conversation with the server needs. */
interface ConversationServices extends Pick<
  AgentServices,
  "outbox" | "uploads" | "downloads" | "link" | "backends"
> {
  readonly clockError: ClockError;
  readonly messages: ServerMessages;
  readonly releases: ReleaseTrust;
  readonly credentials: Credentials;
  readonly diskUse: () => Promise<DiskUse>;
}

export function composeConversation(
  parts: AgentParts,
  reactions: AgentReactions,
  services: ConversationServices,
): Conversation {
  const { enrolment, deviceKey, clock, log, profile } = parts;
  const { outbox, uploads, link, clockError, messages, diskUse, releases, backends } = services;
  const conversation: Conversation = new Conversation(
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
        runtime: `${parts.runtime}; ${backends.text}`,
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
    conversationHandlers(reactions, services, () => {
      conversation.onOutboxChange();
    }),
  );
  return conversation;
}

/** @param onEcho an offer came that only repeats what the device has: the outbox decides what follows */
function conversationHandlers(
  reactions: AgentReactions,
  { downloads, credentials, releases }: ConversationServices,
  onEcho: () => void,
): ConversationHandlers {
  return {
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
      if (isEcho) onEcho();
      else reactions.onOffer(offer);
    },
    onOwnerTime: async (statement) => {
      try {
        return await credentials.takeOwnerTime(statement);
      } catch (error) {
        if (!isStemmaError(error)) throw error;
        // Without a root, this device knows no key of its owner.
        if (releases.status.root !== null) reactions.report("time-refused", messageWithCode(error), "");
        return false;
      }
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
  };
}
