/**
 * One queue a device: its messages reach the handler one by one in the order they came (a broker's
 * asynchronous hooks would reorder them), while devices run beside each other. Counts bytes, so that
 * who fills a queue can be made to wait.
 */
import { SerialQueue } from "../../shared/concurrency/serial-queue.js";

/**
 * What a waiting message costs beside its payload: without it, empty messages could queue without end. Bytes.
 */
const messageOverheadBytes = 1024;

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

  /**
   * Runs `work` after everything before it in this queue; `onError` gets what it throws. Calls `ready` when
   * the queue may take more.
   */
  push(
    key: string,
    payloadBytes: number,
    work: () => Promise<void>,
    onError: (error: unknown) => void,
    ready: () => void,
  ): void {
    const bytes = payloadBytes + messageOverheadBytes;
    const queue = this.#queues.get(key) ?? { actions: new SerialQueue(), bytes: 0, messages: 0, waiting: [] };
    this.#queues.set(key, queue);
    queue.bytes += bytes;
    queue.messages++;
    this.#bytes += bytes;
    void queue.actions.run(async () => {
      try {
        await work();
      } catch (error) {
        onError(error);
      } finally {
        this.#left(key, queue, bytes);
      }
    });
    if (queue.bytes <= this.#maxBytes) ready();
    else queue.waiting.push(ready);
  }
  #left(key: string, queue: Queue, bytes: number): void {
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
