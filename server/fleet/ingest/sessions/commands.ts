/** Sends commands to devices and matches their results by correlation, within a deadline. Knows no HTTP. */
import { isStemmaError, StemmaError } from "../../../../shared/errors.js";
import type { Clock, Log, Random } from "../../../../shared/ports.js";
import { correlationOf, requestField } from "../../../../shared/request-id.js";
import { maxMessageBytes } from "../../../../shared/wire/limits.js";
import type { CommandToSend } from "../../../services/context/operations-context.js";
import type { CommandResult } from "../../../../shared/wire/messages.js";
import {
  answerNotJson,
  commandTooLong,
  commandUnanswered,
  connectionEnded,
  deviceNotConnected,
  tooManyCommands,
} from "../ingest-errors.js";
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
    private readonly clock: Pick<Clock, "after" | "monotonic">,
    private readonly random: Random,
    private readonly log: Pick<Log, "info" | "debug">,
  ) {}

  /**
   * Sends a command to a connected device and waits for its answer.
   * @throws TIMED_OUT, QUOTA_EXCEEDED, ENVELOPE_TOO_LARGE, SERVER_UNREACHABLE
   */
  async send(
    device: string,
    { name, body, request }: CommandToSend,
    timeoutMs: number,
  ): Promise<CommandReply> {
    const json = JSON.stringify(body ?? {});
    if (Buffer.byteLength(json) > maxMessageBytes - 1024) throw commandTooLong(Buffer.byteLength(json));
    if (this.#waiting.size >= maxWaiting) throw tooManyCommands(maxWaiting);
    const correlation = correlationOf(request, Buffer.from(this.random.bytes(8)).toString("hex"));
    const answer = new Promise<CommandReply>((resolve, reject) =>
      this.#waiting.set(correlation, { device, settle: resolve, fail: reject }),
    );
    answer.catch(() => undefined); // The journal's write may fail before it is awaited below.
    const startedMs = this.clock.monotonic();
    const cancel = this.clock.after(timeoutMs, () =>
      this.#waiting.get(correlation)?.fail(commandUnanswered(device, name, timeoutMs)),
    );
    try {
      const command = { type: "command", name, json } as const;
      if (!(await this.sender.send(device, command, correlation, Math.ceil(timeoutMs))))
        throw deviceNotConnected(device);
      const reply = await answer;
      this.#logEnd(device, { name, request }, reply.code, startedMs);
      return reply;
    } catch (error) {
      this.#logEnd(device, { name, request }, isStemmaError(error) ? error.code : "INTERNAL", startedMs);
      throw error;
    } finally {
      cancel();
      this.#waiting.delete(correlation);
    }
  }

  /** Commands that the server sends by itself are logged at level debug alone. */
  #logEnd(
    device: string,
    { name, request }: Pick<CommandToSend, "name" | "request">,
    code: string,
    startedMs: number,
  ): void {
    const ms = Math.round(this.clock.monotonic() - startedMs);
    const fields = {
      device,
      command: name,
      ...requestField({ request }),
      code: code === "" ? "OK" : code,
      ms,
    };
    this.log[request === undefined ? "debug" : "info"]("command", fields);
  }

  /** A result that nobody waits for, or of another device, is ignored. */
  onResult(device: string, correlation: string, { code, json }: CommandResult): void {
    const waiting = this.#waiting.get(correlation);
    if (waiting?.device !== device) return;
    try {
      waiting.settle({ code, result: json === "" ? null : (JSON.parse(json) as unknown) });
    } catch (cause) {
      waiting.fail(answerNotJson(device, cause));
    }
  }

  /**
   * Fails the waiting commands of a device that is gone; without `device`, all of them, because the server
   * stops.
   */
  end(device?: string): void {
    for (const waiting of this.#waiting.values()) {
      if (device === undefined || waiting.device === device) waiting.fail(connectionEnded(waiting.device));
    }
  }
}
