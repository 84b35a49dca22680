/**
 * Queues the messages of each device, so that they reach the handler one by one in the order of arrival. A
 * broker's asynchronous hooks would reorder them; devices run concurrently. Counts bytes, so that a device
 * that fills its queue can be made to wait.
 */
import { SerialQueue } from "../../../shared/concurrency/serial-queue.js";

/**
 * Bytes that each waiting message counts in addition to its payload. Without them, empty messages could queue
 * without limit.
 */
const messageOverheadBytes = 1024;

/** One message on its way through a queue. */
export interface QueuedMessage {
  readonly payloadBytes: number;
  /** Handles the message, after all messages before it in this queue. */
  run(): Promise<void>;
  /** Receives the error that `run` throws. */
  onError(error: unknown): void;
  /** Called when the queue can accept the next message. */
  onReady(): void;
}

interface Queue {
  readonly actions: SerialQueue;
  bytes: number;
  messages: number;
  readonly waiting: (() => void)[];
}

export class DeviceQueues {
  readonly #queues = new Map<string, Queue>();
  readonly #maxBytes: number;
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Adds a message to the queue of a device. */
  push(key: string, message: QueuedMessage): void {
    const bytes = message.payloadBytes + messageOverheadBytes;
    const queue = this.#queues.get(key) ?? { actions: new SerialQueue(), bytes: 0, messages: 0, waiting: [] };
    this.#queues.set(key, queue);
    queue.bytes += bytes;
    queue.messages++;
    this.#bytes += bytes;
    void queue.actions.run(async () => {
      try {
        await message.run();
      } catch (error) {
        message.onError(error);
      } finally {
        this.#release(key, queue, bytes);
      }
    });
    const onReady = (): void => {
      message.onReady();
    };
    if (queue.bytes <= this.#maxBytes) onReady();
    else queue.waiting.push(onReady);
  }

  #release(key: string, queue: Queue, bytes: number): void {
    queue.bytes -= bytes;
    queue.messages--;
    this.#bytes -= bytes;
    if (queue.bytes <= this.#maxBytes) for (const ready of queue.waiting.splice(0)) ready();
    if (queue.messages === 0 && this.#queues.get(key) === queue) this.#queues.delete(key);
  }

  /** Resolves when everything pushed so far has been handled. */
  async idle(): Promise<void> {
    await Promise.all([...this.#queues.values()].map(({ actions }) => actions.idle()));
  }
}
