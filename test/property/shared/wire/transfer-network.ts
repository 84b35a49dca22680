/**
 * A simulated link between a sender and a receiver, driven by a seed: it loses, repeats, reorders
 * and corrupts, breaks the connection, restarts either side, opens a second session. Time is a
 * number. Nothing here is asynchronous, so a failing seed fails the same way again.
 */
import { seededNumbers } from "../../../../shared/random/seeded-numbers.js";
import { createHash } from "node:crypto";
import type { StemmaError } from "../../../../shared/errors.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import type { Block, BlockRequest, Encoding, ManifestPart } from "../../../../shared/wire/messages.js";
import {
  TransferReceiver,
  type ReceiverEffect,
  type ReceiverOptions,
  type ReceiverState,
} from "../../../../shared/wire/transfer/receiver.js";
import { TransferSender, type SenderEffect } from "../../../../shared/wire/transfer/sender.js";

export interface Faults {
  /** Probabilities, per message or per step. */
  readonly loss: number;
  readonly repeat: number;
  readonly delay: number;
  readonly corrupt: number;
  readonly breakLink: number;
  readonly restartSender: number;
  readonly restartReceiver: number;
  readonly secondSession: number;
}
/** How the two ends are set up: the receiver's options, and the sender's blocks and encodings. */
export interface TransferEnds {
  readonly receiver: ReceiverOptions;
  readonly blockBytes: number;
  readonly encodings: readonly Encoding[];
}
export interface Outcome {
  readonly bytes: Uint8Array | undefined;
  readonly error: StemmaError | undefined;
  readonly steps: number;
  readonly blocksSent: number;
  readonly encodings: readonly Encoding[];
}

type Message = {
  readonly to: "sender" | "receiver";
  readonly body: ManifestPart | Block | BlockRequest;
  readonly at: number;
};
const hashOf = (bytes: Uint8Array): Hash => createHash("sha256").update(bytes).digest("hex") as Hash;

export class TransferNetwork {
  readonly #random: () => number;
  readonly #messages: Message[] = [];
  readonly #disk: Uint8Array;
  #senders: TransferSender[];
  #receiver: TransferReceiver;
  /** The state that is written, which a restart finds. */
  #kept: ReceiverState | undefined;
  #pendingWrites: { readonly index: number; readonly offset: number; readonly bytes: Uint8Array }[] = [];
  #outcome: { done?: readonly Encoding[]; error?: StemmaError } | undefined;
  #now = 0;
  #blocksSent = 0;

  constructor(
    private readonly source: Uint8Array,
    private readonly ends: TransferEnds,
    private readonly faults: Faults,
    seed: number,
  ) {
    this.#random = seededNumbers(seed);
    this.#disk = new Uint8Array(source.length);
    this.#senders = [this.#newSender()];
    this.#receiver = new TransferReceiver(ends.receiver);
  }
  #newSender(): TransferSender {
    return new TransferSender({
      transfer: this.ends.receiver.transfer,
      byteLength: this.source.length,
      blockBytes: this.ends.blockBytes,
      encodings: this.ends.encodings,
    });
  }
  #happens(probability: number): boolean {
    return this.#random() < probability;
  }

  run(maxSteps = 200_000): Outcome {
    this.#toReceiver((receiver) => receiver.ask(receiver.slotsWanted, this.#now));
    let steps = 0;
    for (; steps < maxSteps && this.#outcome === undefined; steps++) this.#step();
    if (this.#outcome === undefined)
      throw new Error(`no end after ${maxSteps} steps: ${JSON.stringify(this.#receiver.progress)}`);
    return {
      bytes: this.#outcome.done === undefined ? undefined : this.#disk,
      encodings: this.#outcome.done ?? [],
      error: this.#outcome.error,
      steps,
      blocksSent: this.#blocksSent,
    };
  }

  #step(): void {
    const { faults } = this;
    if (this.#happens(faults.breakLink)) {
      this.#messages.length = 0;
      for (const sender of this.#senders) sender.reconnected();
      this.#toReceiver((receiver) => {
        receiver.reconnected(this.#now);
        return [];
      });
    }
    if (this.#happens(faults.restartSender)) this.#senders = [this.#newSender()];
    if (this.#happens(faults.secondSession))
      this.#senders = [this.#senders[0] ?? this.#newSender(), this.#newSender()];
    if (this.#happens(faults.restartReceiver)) {
      this.#pendingWrites = [];
      this.#receiver = new TransferReceiver(this.ends.receiver, this.#kept);
      this.#toReceiver(() => []);
    }
    if (this.#pendingWrites.length > 0 && this.#happens(0.7)) {
      this.#write();
      return;
    }
    if (this.#messages.length > 0) {
      this.#deliver();
      return;
    }
    if (this.#pendingWrites.length > 0) {
      this.#write();
      return;
    }
    this.#now = this.#receiver.wakeAtMs ?? this.#now + 1000;
    this.#toReceiver((receiver) => receiver.tick(this.#now));
  }
  #write(): void {
    const [write] = this.#pendingWrites.splice(Math.floor(this.#random() * this.#pendingWrites.length), 1);
    if (write === undefined) return;
    this.#disk.set(write.bytes, write.offset);
    this.#toReceiver((receiver) => receiver.written(write.index));
    this.#kept = JSON.parse(JSON.stringify(this.#receiver.state())) as ReceiverState;
  }
  #deliver(): void {
    const at = this.#happens(this.faults.delay) ? Math.floor(this.#random() * this.#messages.length) : 0;
    const [message] = this.#messages.splice(at, 1);
    if (message === undefined || this.#happens(this.faults.loss)) return;
    if (this.#happens(this.faults.repeat)) this.#messages.push(message);
    this.#now += 5;
    const { body } = message;
    if (body.type === "blockRequest") {
      for (const sender of this.#senders) this.#fromSender(sender, sender.onRequest(body, this.#now));
      return;
    }
    if (body.type === "manifest") {
      this.#toReceiver((receiver) => receiver.onManifest(body, this.#now));
      return;
    }
    const block = this.#happens(this.faults.corrupt)
      ? { ...body, data: Uint8Array.from(body.data, (byte, index) => (index === 0 ? byte ^ 1 : byte)) }
      : body;
    this.#toReceiver((receiver) => receiver.onBlock(block, this.#now));
  }
  #fromSender(sender: TransferSender, effects: readonly SenderEffect[]): void {
    for (const effect of effects) {
      if (effect.type === "hash") {
        const hashes = Array.from({ length: effect.count }, (_, index) =>
          hashOf(
            this.source.subarray(
              (effect.first + index) * this.ends.blockBytes,
              (effect.first + index + 1) * this.ends.blockBytes,
            ),
          ),
        );
        this.#fromSender(sender, sender.partHashed(effect.part, hashes));
      } else if (effect.type === "read") {
        this.#blocksSent++;
        this.#fromSender(
          sender,
          sender.blockRead(effect.index, this.source.slice(effect.offset, effect.offset + effect.byteLength)),
        );
      } else this.#messages.push({ to: "receiver", body: effect.message, at: this.#now });
    }
  }
  #toReceiver(call: (receiver: TransferReceiver) => ReceiverEffect[]): void {
    const receiver = this.#receiver;
    for (const effect of [...call(receiver), ...receiver.ask(receiver.slotsWanted, this.#now)]) {
      if (effect.type === "request")
        this.#messages.push({ to: "sender", body: effect.message, at: this.#now });
      else if (effect.type === "write") this.#pendingWrites.push(effect);
      else if (effect.type === "done") this.#outcome = { done: effect.encodings };
      else this.#outcome = { error: effect.error };
    }
  }
}
