/**
 * Announces in a session the versions that the server has not confirmed, and reports the activations that it
 * does not know. Keeps what became of each announcement; a new session starts without any. Knows the link as
 * a function.
 */
import { isStemmaError } from "../../shared/errors.js";
import type { Clock, Log } from "../../shared/ports.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { Enrolment } from "../../shared/trust/enrolment.js";
import type { DeviceKey } from "../../shared/trust/keys.js";
import type { Body, LineHead } from "../../shared/wire/messages.js";
import { activationsToReport, knownUpTo } from "../lines/activation.js";
import { announcementOf } from "../outbox/announcement.js";
import {
  afterAnnouncing,
  afterAnswer,
  afterWelcome,
  decideAnnouncements,
  type Answer,
  type Attempt,
  type Attempts,
} from "../outbox/announcer.js";
import type { OutboxEntry } from "../outbox/outbox-state.js";
import type { Outbox } from "../outbox/outbox.js";

export interface AnnouncementsOptions {
  readonly enrolment: Enrolment;
  readonly deviceKey: DeviceKey;
  readonly outbox: Outbox;
  readonly clock: Clock;
  readonly log: Log;
  /** True if the server may make the tensors of a version itself, and gets them only where it does not. */
  isClaim(entry: OutboxEntry): Promise<boolean>;
  /** False when no session is open. */
  send(body: Body): boolean;
  /** Asks to be called again (`announceDue`) at a monotonic time. */
  wakeAt(atMs: number): void;
  onEvent(name: string, text: string, line: string, versionId?: Hash): void;
}

export class Announcements {
  #attempts: Attempts = new Map();
  /** Line → the number of its last activation that the server knows: as it welcomed, and as it has answered since. */
  #known = new Map<string, number>();
  /** Line → the number of its last activation that this session has reported. */
  readonly #reported = new Map<string, number>();
  /** Monotonic time before which activations are not reported: the server asked to wait. */
  #reportAtMs = 0;

  constructor(private readonly options: AnnouncementsOptions) {}

  /** Forgets the attempts, because a session starts. */
  reset(): void {
    this.#attempts = new Map();
    this.#known = new Map();
    this.#reported.clear();
    this.#reportAtMs = 0;
  }

  /**
   * The server asks to report this activation, and those after it, later. Returns whether an activation of the
   * version was reported in this session.
   */
  reportLater(versionId: Hash, retryInMs: number): boolean {
    const { clock } = this.options;
    let wasReported = false;
    for (const [line, reported] of this.#reported) {
      const refused = this.#activationsOf(line).find((activation) => activation.versionId === versionId);
      if (refused === undefined || refused.number > reported) continue;
      this.#reported.set(line, refused.number - 1);
      wasReported = true;
    }
    if (!wasReported) return false;
    this.#reportAtMs = clock.monotonic() + retryInMs;
    this.options.wakeAt(this.#reportAtMs);
    return true;
  }

  /**
   * The server states what it knows of each line. What it has not answered yet is announced again.
   * @returns line → versions that it has run and the server does not know of
   */
  serverKnows(heads: readonly LineHead[]): ReadonlyMap<string, ReadonlySet<Hash>> {
    const { outbox, enrolment } = this.options;
    this.#known = new Map(heads.map((head) => [head.line, knownUpTo(outbox.state, head.line, head)]));
    this.#reported.clear();
    this.#attempts = afterWelcome(this.#attempts);
    return new Map(
      enrolment.lines.map((line) => [line, new Set(this.#activationsOf(line).map((one) => one.versionId))]),
    );
  }

  /** Returns the state of a version's announcement in this session. */
  attempt(versionId: Hash): Attempt | undefined {
    return this.#attempts.get(versionId);
  }

  /** The server answered about a version: it is announced again later, unless another answer comes first. */
  answered(versionId: Hash, answer: Answer): void {
    const { clock } = this.options;
    this.#attempts = afterAnswer(this.#attempts, versionId, answer, clock.monotonic());
    this.options.wakeAt(this.#attempts.get(versionId)?.retryAtMs ?? clock.monotonic());
  }

  /**
   * Reports activations, announces every version that is due, and asks to be called when the next one is due.
   */
  async announceDue(): Promise<void> {
    const { outbox, clock } = this.options;
    this.#reportActivations();
    const { now } = decideAnnouncements(outbox.state, this.#attempts, clock.monotonic());
    for (const versionId of now) await this.announce(versionId);
    const { wakeAtMs } = decideAnnouncements(outbox.state, this.#attempts, clock.monotonic());
    if (wakeAtMs !== undefined) this.options.wakeAt(wakeAtMs);
  }

  async announce(versionId: Hash): Promise<void> {
    const { outbox, clock, log, deviceKey } = this.options;
    const entry = outbox.entry(versionId);
    this.#attempts = afterAnnouncing(this.#attempts, versionId, clock.monotonic());
    try {
      const isClaim = entry !== undefined && (await this.options.isClaim(entry));
      const announce = await announcementOf(outbox.objects, versionId, deviceKey, { isClaim });
      if (this.options.send(announce) && entry?.standing === "pending")
        log.info("announced", {
          line: entry.line,
          versionId,
          sequence: entry.sequence,
          bytes: announce.tensorBytes,
          text: `${entry.line} announces model ${entry.sequence} (${versionId.slice(0, 12)})`,
        });
    } catch (error) {
      if (!isStemmaError(error)) throw error;
      if (isStemmaError(error, "SIGNER_FAILED")) {
        // The model is as it was: it is announced again after the usual pause.
        this.options.onEvent("signer-failed", error.message, entry?.line ?? "");
        return;
      }
      this.#attempts = afterAnswer(this.#attempts, versionId, { phase: "refused" }, clock.monotonic());
      this.options.onEvent(
        "model-damaged",
        `the model ${versionId} cannot be announced: ${error.message}`,
        entry?.line ?? "",
        versionId,
      );
    }
  }

  #reportActivations(): void {
    if (this.options.clock.monotonic() < this.#reportAtMs) {
      this.options.wakeAt(this.#reportAtMs);
      return;
    }
    for (const line of this.options.enrolment.lines) {
      const reported = this.#reported.get(line) ?? 0;
      for (const { number, versionId, atMs, clockErrorMs } of this.#activationsOf(line)) {
        if (number <= reported) continue;
        this.options.send({ type: "activated", versionId, line, atMs, clockErrorMs, number });
        this.#reported.set(line, number);
      }
    }
  }

  /** The server has recorded a line's activations up to this one. */
  activationRecorded(line: string, number: number): void {
    this.#known.set(line, Math.max(this.#known.get(line) ?? 0, number));
  }

  /** True if the server does not know yet that the line has run this version. */
  isUnrecorded(line: string, versionId: Hash): boolean {
    return this.#activationsOf(line).some((one) => one.versionId === versionId);
  }

  /** Activations that the server does not know of, as far as it may know them. */
  #activationsOf(line: string): ReturnType<typeof activationsToReport> {
    return activationsToReport(this.options.outbox.state, line, this.#known.get(line) ?? 0);
  }
}
