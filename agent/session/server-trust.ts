/**
 * Decides durably whether this device believes the server. It judges each welcome and receipt by
 * server-history.ts, keeps the newest head, and reports a restore and a history that is not believed.
 */
import type { Clock } from "../../shared/ports.js";
import type { Enrolment } from "../../shared/trust/enrolment.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { verifyHead } from "../../shared/trust/signatures.js";
import { serverBelieved, serverDoubted } from "../../shared/wire/device-events.js";
import type { Birth, Body, Receipt, Welcome, WireHead } from "../../shared/wire/messages.js";
import type { AgentFactOf } from "../outbox/agent-fact.js";
import type { Outbox } from "../outbox/outbox.js";
import type { RestoreOwner } from "../releases/release-trust.js";
import { lostByRestore, type Distrust } from "../outbox/outbox-state.js";
import { judgeHistory, judgeReceipt, nothingShown, type ReceiptHistory } from "./server-history.js";

export interface ServerTrustOptions {
  readonly enrolment: Pick<Enrolment, "serverPublicKey" | "formerServerKeys">;
  readonly outbox: Pick<Outbox, "state" | "append">;
  readonly clock: Pick<Clock, "now">;
  /** Returns the owner whose signature a restore needs here; undefined: nobody's but the server's. */
  restoreOwner(): RestoreOwner | undefined;
  onEvent(name: string, text: string, line: string): void;
}

/** Answers to older births in a row before the server is not believed. */
const maxUnanswered = 3;
/** Losses that are reported one by one; `stemma agent status --json` lists all. */
const maxLossEvents = 100;

export class ServerTrust {
  /** Welcomes in a row that proved another head than the newest one. */
  #unanswered = 0;
  /** The proofs in the welcomes to the births so far, until one shows the rest. */
  #shown = nothingShown;
  /** The doubt that was reported in this session: once, however often the server is asked again. */
  #reported: Doubt | undefined;

  constructor(private readonly options: ServerTrustOptions) {}

  /** Forgets what was shown, because a session starts. */
  opened(): void {
    this.#unanswered = 0;
    this.#shown = nothingShown;
    this.#reported = undefined;
  }

  /** The reason why the server is not believed now. */
  get doubt(): string {
    return (
      this.options.outbox.state.distrust?.text ?? "the server has not proven its history in this session"
    );
  }

  /** The owner's releases are taken from the server though it is not believed: they may bring the key that signed. */
  get waitsForOwner(): boolean {
    return this.options.outbox.state.distrust?.unsigned === true;
  }

  /** Returns what a birth states of the newest head, and which restores it asks for. */
  birth(): BirthHistory {
    const seen = this.#isOtherServer ? undefined : this.options.outbox.state.seen;
    return {
      seenJournalLength: seen?.length ?? 0,
      seenJournalChain: seen?.chain,
      seenJournalRoot: seen?.root,
      restoresFrom: this.#shown.from || undefined,
    };
  }

  /**
   * `again`: the welcome answers an older birth, or there are more restores to be shown; nothing follows from it.
   * @throws HEAD_SIGNATURE_INVALID
   */
  async welcome(welcome: Welcome): Promise<"believed" | "again" | "refused"> {
    const { enrolment, outbox } = this.options;
    if (welcome.head !== undefined) verifyHead(enrolment.serverPublicKey, welcome.head);
    if (this.#isOtherServer) await this.#serverChanged();
    const { distrust } = outbox.state;
    const history = judgeHistory(outbox.state, welcome, this.#shown, this.options.restoreOwner());
    switch (history.verdict) {
      case "more":
        this.#shown = history.shown;
        this.#unanswered = 0;
        return "again";
      case "unanswered":
        return await this.#otherBirthAnswered();
      case "rewritten":
        return await this.#refuse(history.text);
      case "unsigned":
        return await this.#refuse(history.text, "unsigned");
      case "restored":
        await this.#restored(history.position, this.#seenFact(history.head, history.learned));
        break;
      case "continued":
        if (isNews(outbox.state, history.head, history.learned))
          await outbox.append(this.#seenFact(history.head, history.learned));
    }
    this.#unanswered = 0;
    this.#shown = nothingShown;
    if (distrust !== undefined)
      this.options.onEvent(
        serverBelieved,
        `the server has proven its history; it was not believed since ${timeOf(distrust.atMs)}`,
        "",
      );
    return "believed";
  }

  /** A server that goes on answering older births does not get more chances. */
  async #otherBirthAnswered(): Promise<"again" | "refused"> {
    if (++this.#unanswered <= maxUnanswered) return "again";
    return await this.#refuse(
      "this device does not believe the server: it proves another history than is asked for",
    );
  }

  /**
   * Compares the receipt's head with the newest one. Where it contradicts it, the server is not believed from here on.
   * @throws RECEIPT_INVALID, HEAD_SIGNATURE_INVALID
   */
  async receipt(receipt: Receipt): Promise<ReceiptHistory> {
    const { enrolment, outbox } = this.options;
    if (receipt.head !== undefined) verifyHead(enrolment.serverPublicKey, receipt.head);
    const history = judgeReceipt(outbox.state.seen, receipt);
    if (history === "contradicts")
      await this.#refuse(
        `this device does not believe the server: a receipt names a head of ${receipt.head?.length} ` +
          `facts that does not continue the ${outbox.state.seen?.length} that this device has seen`,
      );
    return history;
  }

  #seenFact({ length, chain, root, publicKey }: WireHead, restores: readonly Hash[]): AgentSeen {
    return { type: "seen", atMs: this.#now(), length, chain, root, restores, server: publicKey };
  }

  /** The device was enrolled with another server since the newest head. */
  get #isOtherServer(): boolean {
    const { enrolment, outbox } = this.options;
    const { serverPublicKey, formerServerKeys = [] } = enrolment;
    const { server } = outbox.state;
    return server !== undefined && server !== serverPublicKey && !formerServerKeys.includes(server);
  }

  /** Forgets what the server before has recorded: nothing of it counts at this one. */
  async #serverChanged(): Promise<void> {
    const { enrolment, outbox } = this.options;
    await outbox.append(
      { type: "restored", atMs: this.#now(), position: 0 },
      { type: "server", atMs: this.#now(), publicKey: enrolment.serverPublicKey },
    );
    this.options.onEvent(
      "server-changed",
      "this device is enrolled with another server now; all models that it still has are announced to it",
      "",
    );
  }

  /** Remembers and reports that the server is not believed. */
  async #refuse(text: string, doubt: Doubt = "rewritten"): Promise<"refused"> {
    this.#unanswered = 0;
    this.#shown = nothingShown;
    const { outbox } = this.options;
    const { distrust } = outbox.state;
    // The first reason of a kind stays: later ones differ only in how far the server has grown meanwhile.
    if (distrust === undefined || doubtOf(distrust) !== doubt)
      await outbox.append({
        type: "distrusted",
        atMs: distrust?.atMs ?? this.#now(),
        text,
        ...(doubt === "unsigned" ? { unsigned: true } : {}),
      });
    const since = distrust === undefined ? "" : ` Not believed since ${timeOf(distrust.atMs)}.`;
    if (this.#reported !== doubt) this.options.onEvent(serverDoubted, `${text}.${since}`, "");
    this.#reported = doubt;
    return "refused";
  }

  async #restored(position: number, seen: AgentSeen): Promise<void> {
    const { outbox } = this.options;
    const lost = lostByRestore(outbox.state, position);
    await outbox.append({ type: "restored", atMs: this.#now(), position }, seen);
    this.options.onEvent(
      "server-restored",
      `the server was restored to position ${position}; everything it recorded after that is announced again`,
      "",
    );
    for (const entry of lost.slice(0, maxLossEvents))
      this.options.onEvent(
        "model-lost",
        `the model ${entry.name}:${entry.version ?? "?"} (${entry.versionId}) was released and is ` +
          "deleted here, and it is after the state that the server was restored to. Look whether the " +
          `server still has it: \`stemma model show ${entry.versionId.slice(0, 12)}\`; a newer backup ` +
          "may have it",
        entry.line,
      );
    if (lost.length > maxLossEvents)
      this.options.onEvent(
        "model-lost",
        `and ${lost.length - maxLossEvents} more models, which \`stemma agent status --json\` on the device lists`,
        "",
      );
  }

  #now(): number {
    return Math.round(this.options.clock.now());
  }
}

/** `unsigned`: a restore that the owner has not signed explains all. */
type Doubt = "rewritten" | "unsigned";
const doubtOf = ({ unsigned }: Distrust): Doubt => (unsigned === true ? "unsigned" : "rewritten");

/** The parts of a birth that concern the server's history. */
export type BirthHistory = Pick<
  Birth,
  "seenJournalLength" | "seenJournalChain" | "seenJournalRoot" | "restoresFrom"
>;
type AgentSeen = AgentFactOf<"seen">;

function isNews({ seen, distrust }: Outbox["state"], head: WireHead, learned: readonly unknown[]): boolean {
  return seen?.length !== head.length || learned.length > 0 || distrust !== undefined;
}

function timeOf(atMs: number): string {
  return new Date(atMs).toISOString();
}

/** The server does not serve this device: true whether or not it is believed. */
export function isNotAdmitted(body: Body): boolean {
  return body.type === "refusal" && (body.code === "DEVICE_QUARANTINED" || body.code === "DEVICE_REVOKED");
}
