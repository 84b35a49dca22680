/** Fetches and installs models that the server offers, and tries again where that may help. */
import { messageWithCode } from "../shared/error-text.js";
import { isStemmaError } from "../shared/errors.js";
import { switchRefused } from "../shared/wire/device-events.js";
import type { Offer } from "../shared/wire/messages.js";
import type { AgentReactions } from "./agent-parts.js";
import type { BackgroundTasks } from "./background-tasks.js";
import type { AgentServices } from "./agent-parts.js";

export interface OfferReactionsParts {
  readonly tasks: Pick<BackgroundTasks, "run" | "runAfter">;
  readonly report: AgentReactions["report"];
  services(): Pick<AgentServices, "offers" | "activator" | "trainer">;
}

const offerRetryMs = 60_000;
/** Errors after which the same offer cannot succeed. */
const finalOfferErrors = new Set([
  "SIGNATURE_INVALID",
  "LINE_UNKNOWN",
  "OBJECT_HASH_MISMATCH",
  "ROOT_MISMATCH",
  "RECORD_INVALID",
  "NAMES_INVALID",
  "LAYER_NOT_ALLOWED",
  "ARCHITECTURE_MISMATCH",
  // New metadata of releases comes with another offer.
  "RELEASE_REQUIRED",
  "RELEASE_REVOKED",
  "RELEASE_MISMATCH",
  "RELEASE_UNKNOWN",
  "RELEASE_EXPIRED",
  "RELEASE_METADATA_INVALID",
  // New cosignatures come with another offer, and so does another proof.
  "COSIGNATURES_MISSING",
  "CHECKPOINT_INVALID",
  "HISTORY_UNPROVEN",
  // Tried again at the next connection, or when it is assigned again.
  "HOOK_FAILED",
  "INTERRUPTED",
]);

const offerKey = ({ line, staged }: Offer): string => `${line}${staged === true ? " staged" : ""}`;

export class OfferReactions {
  /** The newest offer to each line, and the newest staged one. */
  readonly #newestOffers = new Map<string, Offer>();

  constructor(private readonly parts: OfferReactionsParts) {}

  /** A later offer to the same line takes the place of one that is to be tried again. */
  onOffer(offer: Offer): void {
    this.#newestOffers.set(offerKey(offer), offer);
    this.parts.tasks.run(() => this.#take(offer));
  }

  async #take(offer: Offer): Promise<void> {
    const { offers, activator, trainer } = this.parts.services();
    try {
      await offers.take(offer);
      if (offer.staged === true) return;
      await activator.activate(offer.line, offer.versionId);
      trainer.wake();
    } catch (error) {
      if (!isStemmaError(error)) throw error;
      if (error.code === "INTERRUPTED") return;
      this.parts.report(
        error.code === "HOOK_FAILED" ? switchRefused : "offer-failed",
        `the offered model ${offer.name}:${offer.version} could not be installed: ${messageWithCode(error)}`,
        offer.line,
        offer.versionId,
      );
      if (!finalOfferErrors.has(error.code))
        this.parts.tasks.runAfter(offerRetryMs, async () => {
          // What was offered since comes after it.
          if (this.#newestOffers.get(offerKey(offer)) === offer) await this.#take(offer);
        });
    }
  }
}
