/**
 * Sends the facts of the fleets to webhooks, in order and at least once. A webhook moves on when its receiver
 * has answered with success, and that is on the disk before the next request. A receiver that was away gets
 * everything that came meanwhile. Each webhook waits for itself alone.
 */
import { defined } from "../../../shared/defined.js";
import { messageOf } from "../../../shared/error-text.js";
import type { Clock, Files, Log, Random } from "../../../shared/ports.js";
import type { Signer } from "../../../shared/trust/keys.js";
import type { LiveWebhooks, WebhookState } from "../context/operations-context.js";
import { deliveryLimits, nextDelivery, type Delivery, type ReadJournal } from "./next-delivery.js";
import type { Post } from "./post-facts.js";
import { messageId, webhookHeaders } from "./sign-webhook.js";
import { moveCursor, readCursor, readWebhooks, type Webhook } from "./webhook-store.js";

export interface WebhookRunnerParts {
  readonly files: Files;
  readonly home: string;
  readonly clock: Clock;
  readonly random: Random;
  readonly signer: Signer;
  readonly log: Log;
  readonly post: Post;
  journalOf(fleet: string): Promise<ReadJournal>;
}

/** The longest time that a new fact waits. */
const lookMs = 1_000;
const firstRetryMs = 1_000;
const maxRetryMs = 10 * 60_000;
/** An answer of a receiver that fails again and again is logged at these failures only. */
const loggedFailures: ReadonlySet<number> = new Set([1, 10, 100, 1000]);

export class WebhookRunner implements LiveWebhooks {
  readonly #stop = new AbortController();
  readonly #states = new Map<string, WebhookState>();
  readonly #sending = new Map<string, Promise<void>>();
  #cancelTimer: () => void = () => undefined;
  #looking: Promise<void> = Promise.resolve();

  constructor(private readonly parts: WebhookRunnerParts) {}

  start(): void {
    this.#looking = this.#look();
  }

  stateOf(name: string): WebhookState {
    return this.#states.get(name) ?? {};
  }

  forget(name: string): void {
    this.#states.delete(name);
  }

  async close(): Promise<void> {
    this.#stop.abort();
    this.#cancelTimer();
    await this.#looking;
    await Promise.all(this.#sending.values());
  }

  async #look(): Promise<void> {
    try {
      for (const webhook of await readWebhooks(this.parts.files, this.parts.home)) this.#begin(webhook);
    } catch (error) {
      this.parts.log.error("webhooks-stopped", { message: messageOf(error) });
    }
    if (this.#stop.signal.aborted) return;
    this.#cancelTimer = this.parts.clock.after(lookMs, () => {
      this.#looking = this.#look();
    });
  }

  #begin(webhook: Webhook): void {
    const { name } = webhook;
    if (this.#sending.has(name)) return;
    if ((this.stateOf(name).againAtMs ?? -Infinity) > this.parts.clock.now()) return;
    const sending = this.#sendAll(webhook)
      .catch((error: unknown) => {
        this.#failed(webhook, messageOf(error));
      })
      .finally(() => this.#sending.delete(name));
    this.#sending.set(name, sending);
  }

  /** Sends until the receiver has everything, or fails. */
  async #sendAll(webhook: Webhook): Promise<void> {
    const { files, home } = this.parts;
    const journal = await this.parts.journalOf(webhook.fleet);
    while (!this.#stop.signal.aborted) {
      const cursor = await readCursor(files, home, webhook.name);
      const delivery = await nextDelivery(webhook, journal, cursor);
      if (delivery === undefined) return;
      if (delivery.facts.length > 0 && !(await this.#send(webhook, delivery))) return;
      // Facts that the webhook does not take are looked at again, unless there are many of them.
      const isWorthWriting =
        delivery.facts.length > 0 || delivery.next.position - delivery.from >= deliveryLimits.facts;
      if (!isWorthWriting) return;
      // A person may have moved the webhook meanwhile; then that counts.
      const now = await readCursor(files, home, webhook.name);
      if (now?.position === cursor?.position) await moveCursor(files, home, webhook.name, delivery.next);
    }
  }

  async #send(webhook: Webhook, { facts, from, next }: Delivery): Promise<boolean> {
    const body = factsBody(webhook.fleet, from, next.position, facts);
    const id = messageId(webhook.fleet, from, next.position);
    const headers = webhookHeaders(this.parts.signer, { id, body, atMs: this.parts.clock.now() });
    const result = await this.parts.post(webhook.url, headers, body, this.#stop.signal);
    if (this.#stop.signal.aborted) return result.isDelivered;
    if (result.isDelivered) {
      this.#states.set(webhook.name, { deliveredAtMs: this.parts.clock.now() });
      return true;
    }
    this.#failed(webhook, result.because);
    return false;
  }

  #failed({ name, url }: Webhook, because: string): void {
    const { clock, random, log } = this.parts;
    const { failures: before = 0, deliveredAtMs } = this.stateOf(name);
    const failures = before + 1;
    const pauseMs = Math.min(maxRetryMs, firstRetryMs * 2 ** Math.min(before, 20));
    // Half of the pause is drawn, so that receivers of many servers are not called all at the same time.
    const drawn = (random.bytes(1)[0] ?? 0) / 255;
    this.#states.set(name, {
      ...defined({ deliveredAtMs }),
      failures,
      because,
      againAtMs: clock.now() + pauseMs * (0.5 + 0.5 * drawn),
    });
    if (loggedFailures.has(failures))
      log.warn("webhook-failed", { webhook: name, host: new URL(url).host, failures, because });
  }
}

/** The body of a request, as text of JSON. */
export function factsBody(fleet: string, from: number, next: number, facts: readonly object[]): string {
  return JSON.stringify({ kind: "stemma-facts", format: 1, fleet, from, next, facts });
}
