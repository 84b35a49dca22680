/** Answers the server's wants: starts the uploads it asks for, announces the bases it lacks. */
import { isStemmaError } from "../../shared/errors.js";
import type { Log } from "../../shared/ports.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { Body, Want } from "../../shared/wire/messages.js";
import type { Outbox } from "../outbox/outbox.js";
import type { Uploads } from "../outbox/uploads.js";
import type { Announcements } from "./announcements.js";
import { WantParts } from "./want-parts.js";

export interface WantAnswersOptions {
  readonly outbox: Outbox;
  readonly uploads: Uploads;
  readonly announcements: Announcements;
  readonly log: Log;
  send(body: Body, options: { readonly correlation: string }): boolean;
  onEvent(name: string, text: string, line: string, versionId?: Hash): void;
}

/** Milliseconds after the last request for blocks until a version is announced again. */
export const movingMs = 60_000;

export class WantAnswers {
  readonly #parts = new WantParts();
  constructor(private readonly options: WantAnswersOptions) {}

  /** A session starts: parts of earlier wants are dropped. */
  clear(): void {
    this.#parts.clear();
  }

  /** Answers a want once all its parts are here. */
  async answer(part: Want, correlation: string): Promise<void> {
    const want = this.#parts.join(part);
    if (want === undefined) return;
    const { outbox, uploads, announcements, log } = this.options;
    const entry = outbox.entry(want.versionId);
    if (entry === undefined) {
      this.#refuse("MODEL_NOT_FOUND", `This device has no version ${want.versionId}.`, want, correlation);
      return;
    }
    if (want.reason === "base") return this.#wantBase(want, correlation);
    try {
      await uploads.begin(want);
      announcements.answered(want.versionId, { phase: "moving", retryInMs: movingMs });
      log.debug("wanted", {
        line: entry.line,
        versionId: want.versionId,
        reason: want.reason,
        transfer: want.transfer,
      });
    } catch (error) {
      if (!isStemmaError(error)) throw error;
      this.#refuse(error.code, error.message, want, correlation);
      this.options.onEvent(
        "model-damaged",
        `the server wants the model ${want.versionId}, and it cannot be read here: ${error.message}`,
        entry.line,
        want.versionId,
      );
    }
  }

  /**
   * Handles a want for bases. Those that are here and not on their way are announced. For the others the
   * server gets a refusal, and then receives the child without its base.
   */
  async #wantBase(want: Want, correlation: string): Promise<void> {
    const { outbox, announcements } = this.options;
    announcements.answered(want.versionId, { phase: "parked" });
    for (const base of want.bases) {
      const entry = outbox.entry(base);
      if (entry?.origin === "trained") {
        if (entry.standing !== "pending" || announcements.attempt(base) === undefined)
          await announcements.announce(base);
      } else
        this.#refuse(
          "BASE_MISSING",
          `The base ${base} is not on this device any more, or it was never a version of this device.`,
          want,
          correlation,
        );
    }
  }

  #refuse(code: string, message: string, want: Want, correlation: string): void {
    this.options.send(
      {
        type: "refusal",
        code,
        message,
        versionId: want.versionId,
        transfer: want.transfer,
        retry: false,
        retryAfterMs: 0,
      },
      { correlation },
    );
  }
}
