/**
 * The fleet's rounds in the demo: says what the server hears of its vehicles, kills the agent with the slow link in the
 * middle of a transfer and starts it again, and ends when every line has done its rounds.
 */
import { isStemmaError, StemmaError } from "../../../shared/errors.js";
import { formatBytes, formatDuration } from "../../../shared/cli/output.js";
import type { ServerEvent } from "../../interface/api/event-schemas.js";
import type { StartedProcess } from "./child-processes.js";
import type { DemoPlan } from "./demo-plan.js";

/** The bytes that were sent for one model, and the size of a plain copy of it. */
export interface SentModel {
  readonly device: string;
  readonly wireBytes: number;
  readonly tensorBytes: number;
  /** The time from the announcement to the receipt. */
  readonly tookMs: number;
  /** The vehicle sent how it made the model, and not its parameters. */
  readonly isClaim: boolean;
}

/** The transfer whose agent was killed. */
export interface CutTransfer {
  /** Bytes that had arrived and were not sent again. */
  readonly resumedBytes: number;
  readonly totalBytes: number;
}

export interface RoundsOptions {
  readonly plan: DemoPlan;
  readonly logs: string;
  readonly say: (text: string) => void;
  /** Starts the agent of a vehicle. */
  readonly start: (device: string) => StartedProcess;
}

/** The demo fails when no model is recorded or activated for this long. A round takes seconds. */
const progressTimeoutMs = 120_000;
/** Shares of a transfer between which its agent is killed. */
const [cutFrom, cutUntil] = [0.3, 0.8];

export class FleetRounds {
  readonly sent = new Map<string, SentModel>();
  readonly #agents = new Map<string, StartedProcess>();
  #fail: (error: StemmaError) => void = () => undefined;
  /** Rejects when an agent ends that was not killed on purpose. */
  readonly failed = new Promise<never>((_, reject) => {
    this.#fail = reject;
  });
  cut: CutTransfer | undefined;
  #isCut = false;
  readonly #names = new Map<string, string>();
  /** Line of a device → rounds that are missing. */
  readonly #missing: Map<string, number>;
  readonly #recorded = new Set<string>();
  readonly #unproved = new Set<string>();

  constructor(private readonly options: RoundsOptions) {
    this.failed.catch(() => undefined);
    this.#missing = new Map(
      options.plan.vehicles.flatMap(({ device, lines }) =>
        lines.map(({ line }) => [`${device} ${line}`, options.plan.rounds] as const),
      ),
    );
  }

  /** Starts the agent of a vehicle. */
  start(device: string): void {
    const agent = this.options.start(device);
    this.#agents.set(device, agent);
    void agent.ended.then((status) => {
      if (status === "SIGKILL" && this.#isCut) return;
      this.#fail(
        new StemmaError(
          "CHECK_FAILED",
          `The agent of ${device} ended (${status}) while it was needed. Its log is ${this.options.logs}/${device}.log.`,
        ),
      );
    });
  }

  /**
   * Follows the events until all rounds are done.
   * @throws TIMED_OUT, CHECK_FAILED where an agent ends, and what the events throw
   */
  async follow(events: AsyncIterable<ServerEvent>): Promise<void> {
    const timer = setTimeout(() => {
      this.#fail(this.#noProgress());
    }, progressTimeoutMs);
    const following = async (): Promise<void> => {
      for await (const event of events) {
        if (event.event === "recorded" || event.event === "activated") timer.refresh();
        this.#note(event);
        if (event.event === "transfer") this.#cutOrResume(event);
        if (this.#isDone) return;
      }
    };
    try {
      await Promise.race([following(), this.failed]);
    } finally {
      clearTimeout(timer);
    }
  }

  get #isDone(): boolean {
    return this.#unproved.size === 0 && [...this.#missing.values()].every((count) => count === 0);
  }

  #note(event: ServerEvent): void {
    const { say } = this.options;
    switch (event.event) {
      case "recorded":
      case "claimed": {
        const isClaim = event.event === "claimed";
        const name = isClaim ? event.name : `${event.name}:${event.version}`;
        const { device, line, wireBytes, tensorBytes, tookMs, versionId } = event;
        this.#recorded.add(versionId);
        if (isClaim) this.#unproved.add(versionId);
        else this.#unproved.delete(versionId);
        this.#names.set(versionId, name);
        this.sent.set(versionId, { device, wireBytes, tensorBytes, tookMs, isClaim });
        const what = isClaim ? `sends how it made a ${name}` : `saved ${name}`;
        say(`  ${device} ${line}: ${what}, ${formatBytes(wireBytes)} sent of ${formatBytes(tensorBytes)}`);
        return;
      }
      case "claim-ended":
        if (event.verdict === "proved") this.#unproved.delete(event.versionId);
        say(`  the server trained a model of ${event.device} again: ${event.verdict}`);
        return;
      case "stored":
        this.#names.set(event.versionId, `${event.name}:${event.version}`);
        return;
      case "activated": {
        const key = `${event.device} ${event.line}`;
        if (this.#recorded.has(event.versionId))
          this.#missing.set(key, Math.max(0, (this.#missing.get(key) ?? 0) - 1));
        say(`  ${key}: runs ${this.#names.get(event.versionId) ?? event.versionId.slice(0, 12)}`);
        return;
      }
      case "refused":
        say(`  ${event.device}: refused, ${event.message}`);
        return;
      default:
    }
  }

  #cutOrResume(event: Extract<ServerEvent, { event: "transfer" }>): void {
    const { plan, say } = this.options;
    const { bytes, totalBytes, resumedBytes, device } = event;
    const agent = this.#agents.get(device);
    if (device !== plan.vehicles.find(({ hasSlowLink }) => hasSlowLink)?.device || agent === undefined)
      return;
    const share = bytes / totalBytes;
    if (!this.#isCut && share >= cutFrom && share <= cutUntil) {
      this.#isCut = true;
      say(`$ kill -9 ${agent.pid}   # the agent of ${device}, at ${Math.round(100 * share)} % of a transfer`);
      agent.kill("SIGKILL");
      void agent.ended
        .then(() => {
          this.start(device);
        })
        .catch((error: unknown) => {
          if (isStemmaError(error)) this.#fail(error);
        });
    } else if (this.#isCut && this.cut === undefined && resumedBytes > 0) {
      this.cut = { resumedBytes, totalBytes };
      const percent = Math.round((100 * resumedBytes) / totalBytes);
      say(`  the transfer of ${device} goes on at ${percent} %: what had arrived is not sent again`);
    }
  }

  #noProgress(): StemmaError {
    const missing = [...this.#missing]
      .filter(([, count]) => count > 0)
      .map(([key, count]) => `${key} lacks ${count} rounds`);
    return new StemmaError(
      "TIMED_OUT",
      `No vehicle has made progress for ${formatDuration(progressTimeoutMs)}: ${missing.join(", ")}. The logs are in ${this.options.logs}. Run the demo again; it continues from here.`,
    );
  }
}
