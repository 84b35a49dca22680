/** Sends commands to devices and matches their results by correlation, within a deadline. Knows no HTTP. */
import { StemmaError } from "../../shared/errors.js";
import type { Clock, Random } from "../../shared/ports.js";
import { maxMessageBytes } from "../../shared/wire/limits.js";
import type { CommandResult } from "../../shared/wire/messages.js";
import type { DeviceSender } from "./device-sender.js";

export interface CommandReply {
  readonly code: string;
  readonly result: unknown;
}

interface Waiting {
  readonly device: string;
  settle(reply: CommandReply): void;
  fail(error: StemmaError): void;
}

/** Max commands that wait for their results at a time. */
const maxWaiting = 1024;

export class CommandRelay {
  readonly #waiting = new Map<string, Waiting>();
  constructor(
    private readonly sender: Pick<DeviceSender, "send">,
    private readonly clock: Pick<Clock, "after">,
    private readonly random: Random,
  ) {}

  /**
   * Sends a command to a connected device and waits for its answer.
   * @throws TIMED_OUT, QUOTA_EXCEEDED, ENVELOPE_TOO_LARGE, SERVER_UNREACHABLE
   */
  async send(device: string, name: string, body: unknown, timeoutMs: number): Promise<CommandReply> {
    const json = JSON.stringify(body ?? {});
    if (Buffer.byteLength(json) > maxMessageBytes - 1024)
      throw new StemmaError(
        "ENVELOPE_TOO_LARGE",
        `A command of ${Buffer.byteLength(json)} bytes does not fit into one message. Send a smaller one.`,
      );
    if (this.#waiting.size >= maxWaiting)
      throw new StemmaError(
        "QUOTA_EXCEEDED",
        `${maxWaiting} commands wait for their results already. Try again when some are answered.`,
      );
    const correlation = Buffer.from(this.random.bytes(16)).toString("hex");
    const answer = new Promise<CommandReply>((resolve, reject) =>
      this.#waiting.set(correlation, { device, settle: resolve, fail: reject }),
    );
    answer.catch(() => undefined); // It may fail before it is awaited below.
    const cancel = this.clock.after(timeoutMs, () =>
      this.#waiting
        .get(correlation)
        ?.fail(
          new StemmaError(
            "TIMED_OUT",
            `The device ${device} did not answer the command "${name}" within ${timeoutMs} ms. It may be busy or gone: look at it with \`stemma device show ${device}\`.`,
          ),
        ),
    );
    try {
      const command = { type: "command", name, json } as const;
      if (!(await this.sender.send(device, command, correlation, Math.ceil(timeoutMs))))
        throw new StemmaError(
          "SERVER_UNREACHABLE",
          `The device ${device} is not connected, or its session has only begun. Ask again when it is there: \`stemma device show ${device}\`.`,
        );
      return await answer;
    } finally {
      cancel();
      this.#waiting.delete(correlation);
    }
  }

  /** A result that nobody waits for, or of another device, is ignored. */
  onResult(device: string, correlation: string, { code, json }: CommandResult): void {
    const waiting = this.#waiting.get(correlation);
    if (waiting?.device !== device) return;
    try {
      waiting.settle({ code, result: json === "" ? null : (JSON.parse(json) as unknown) });
    } catch (cause) {
      waiting.fail(
        new StemmaError(
          "ENVELOPE_MALFORMED",
          `The device ${device} answered a command with something that is not valid JSON. Update its agent.`,
          { cause },
        ),
      );
    }
  }

  /**
   * Fails the waiting commands of a device that is gone; without `device`, all of them, because the server
   * stops.
   */
  end(device?: string): void {
    for (const waiting of this.#waiting.values()) {
      if (device === undefined || waiting.device === device)
        waiting.fail(
          new StemmaError(
            "SERVER_UNREACHABLE",
            `The connection to the device ${waiting.device} ended before it answered. Ask again when it is back.`,
          ),
        );
    }
  }
}
