/**
 * Follows the demo's fleet: shows the server's events on the screen, kills one agent in the middle of a
 * transfer and shows that the transfer resumes, and resolves when every line has done its rounds.
 */
import { isStemmaError, StemmaError } from "../../../shared/errors.js";
import { formatBytes, formatDuration, type Output } from "../../../shared/cli/output.js";
import type { ServerEvent } from "../../interface/api/event-schemas.js";
import type { ServerOperations } from "../../interface/api/server-operations.js";
import type { StartedProcess } from "./child-processes.js";
import { demoFleet, type DemoPlan, type DemoVehicle } from "./demo-plan.js";
import { applyEvent, initialState, keyOf, withNote, type DemoState } from "./demo-state.js";
import { LiveScreen } from "./live-screen.js";

export interface Restarter {
  restart(vehicle: DemoVehicle): StartedProcess;
}

/** What was measured while a version was received. */
export interface ReportFigures {
  readonly wireBytes: number;
  readonly tensorBytes: number;
  readonly tookMs: number;
}

/** The demo fails when no model is recorded or activated for this long. A round takes seconds. */
const progressTimeoutMs = 120_000;

export class FleetWatch {
  #state: DemoState;
  readonly #screen = new LiveScreen();
  readonly #listeners = new Set<(event: ServerEvent) => void>();
  readonly #earlier = new Map<string, number>();
  readonly #timer: NodeJS.Timeout;
  readonly figures = new Map<string, ReportFigures>();
  /** The transfer whose agent was killed: the bytes that had arrived, at the kill and when it resumed. */
  cut: { readonly atBytes: number; readonly resumedBytes: number; readonly totalBytes: number } | undefined;

  constructor(
    private readonly plan: DemoPlan,
    private readonly output: Output,
  ) {
    this.#state = initialState(
      plan.vehicles.flatMap((vehicle) =>
        vehicle.lines.map((line) => ({ device: vehicle.device, line: line.line })),
      ),
    );
    this.#timer = setInterval(() => {
      this.#draw();
    }, 125);
    this.#timer.unref();
  }

  printLine(line: string): void {
    this.#screen.printLine(`• ${line}`);
  }
  progress(line: string): void {
    if (!this.#fleetShown) this.output.progress(line);
  }
  #fleetShown = false;
  /** The demo stops: nothing is restarted any more. */
  #hasEnded = false;
  #draw(): void {
    if (this.#fleetShown) this.#screen.draw(this.#state, "Stemma: a fleet at work");
  }
  end(): void {
    this.#hasEnded = true;
    clearInterval(this.#timer);
    this.#fleetShown = false;
  }

  /** Sets the name of a version of an earlier run, since no event of this run contains it. */
  setName(versionId: string, name: string): void {
    this.#state = { ...this.#state, names: new Map(this.#state.names).set(versionId, name) };
  }

  roundsBefore(device: string): number {
    return Math.max(
      0,
      ...[...this.#earlier].filter(([key]) => key.startsWith(`${device}/`)).map(([, count]) => count),
    );
  }

  async countEarlierRounds(operations: ServerOperations, { device, lines }: DemoVehicle): Promise<void> {
    // Claims first: one that is proved meanwhile is counted twice, which only allows a round too many.
    const jobs = await operations.replays({ fleet: demoFleet });
    for (const { line } of lines) {
      const claims = jobs.filter((job) => job.kind === "claim" && job.device === device && job.line === line);
      const versions = await operations.models({ fleet: demoFleet, device, line });
      this.#earlier.set(keyOf(device, line), versions.length + claims.length);
    }
  }

  /** Follows events until the signal aborts. */
  async follow(operations: ServerOperations, signal: AbortSignal): Promise<void> {
    try {
      for await (const event of operations.events(signal)) {
        this.#state = applyEvent(this.#state, event);
        if (event.event === "recorded" || event.event === "claimed")
          this.figures.set(event.versionId, {
            wireBytes: event.wireBytes,
            tensorBytes: event.tensorBytes,
            tookMs: event.tookMs,
          });
        if (!this.#screen.isTerminal) this.#plainLine(event);
        for (const listener of this.#listeners) listener(event);
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  #plainLine(event: ServerEvent): void {
    switch (event.event) {
      case "device-connected":
        this.printLine(`${event.device} is online`);
        break;
      case "recorded":
        this.printLine(
          `${event.device} ${event.line}: ${event.name}:${event.version} recorded, ${formatBytes(event.wireBytes)} on the wire of ${formatBytes(event.tensorBytes)}`,
        );
        break;
      case "claimed":
        this.printLine(
          `${event.device} ${event.line}: reports how it made ${event.name}, ${formatBytes(event.wireBytes)} on the wire of ${formatBytes(event.tensorBytes)}`,
        );
        break;
      case "claim-ended":
        this.printLine(`${event.device} ${event.line}: a model is ${event.verdict}: ${event.because}`);
        break;
      case "activated":
        this.printLine(
          `${event.device} ${event.line}: runs ${this.#state.names.get(event.versionId) ?? event.versionId.slice(0, 8)}`,
        );
        break;
      case "refused":
        this.printLine(`${event.device}: refused, ${event.message}`);
        break;
      default:
        break;
    }
  }

  /** Resolves when every line has saved and activated its rounds. Kills and restarts one agent on the way. */
  async allDone(
    agents: Map<string, StartedProcess>,
    restarter: Restarter,
    signal: AbortSignal,
  ): Promise<void> {
    this.#fleetShown = true;
    const slow = this.plan.vehicles.find((vehicle) => vehicle.hasSlowLink);
    const missing = new Map(
      this.plan.vehicles.flatMap((vehicle) =>
        vehicle.lines.map((line) => [keyOf(vehicle.device, line.line), this.plan.rounds] as const),
      ),
    );
    const recordedHere = new Set<string>();
    const unproved = new Set<string>();
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => {
        reject(
          new StemmaError(
            "TIMED_OUT",
            `No vehicle has made progress for ${formatDuration(progressTimeoutMs)}: ${missingRounds(missing)}. The log of every process is in the demo's logs folder. Run the demo again; it continues from here.`,
          ),
        );
      }, progressTimeoutMs);
      const finish = (settle: () => void): void => {
        clearTimeout(timer);
        this.#listeners.delete(listener);
        settle();
      };
      const listener = (event: ServerEvent): void => {
        if (event.event === "recorded" || event.event === "activated") timer.refresh();
        if (event.event === "recorded" || event.event === "claimed") recordedHere.add(event.versionId);
        if (event.event === "claimed") unproved.add(event.versionId);
        if (event.event === "recorded" || (event.event === "claim-ended" && event.verdict === "proved"))
          unproved.delete(event.versionId);
        if (event.event === "activated" && recordedHere.has(event.versionId)) {
          const key = keyOf(event.device, event.line);
          missing.set(key, Math.max(0, (missing.get(key) ?? 0) - 1));
        }
        if (unproved.size === 0 && [...missing.values()].every((count) => count === 0)) finish(resolve);
        if (slow !== undefined && event.event === "transfer" && event.device === slow.device)
          this.#cutOrResume(event, slow, agents, restarter);
      };
      this.#listeners.add(listener);
      signal.addEventListener(
        "abort",
        () => {
          finish(() => {
            reject(
              isStemmaError(signal.reason) ? signal.reason : new StemmaError("INTERRUPTED", "Interrupted."),
            );
          });
        },
        { once: true },
      );
    });
    this.#draw();
    this.#screen.leave();
    this.#fleetShown = false;
  }

  /** Rejects when an agent ends although the demo did not kill it. */
  async agentFailed(agents: ReadonlyMap<string, StartedProcess>, logFolder: string): Promise<never> {
    const watched = new Set<StartedProcess>();
    return new Promise((_, reject) => {
      const watch = (): void => {
        for (const agent of agents.values()) {
          if (watched.has(agent)) continue;
          watched.add(agent);
          void agent.ended.then((status) => {
            if (status === "SIGKILL" && this.#cutAt !== undefined) {
              watch();
              return;
            }
            reject(
              new StemmaError(
                "CHECK_FAILED",
                `The agent of ${agent.name} ended (${status}) while it was needed. Its log is ${logFolder}/${agent.name}.log.`,
              ),
            );
          });
        }
      };
      watch();
      this.#onRestart = watch;
    });
  }
  #onRestart: () => void = () => undefined;

  /** The transfer over the slow link and its progress when its agent was killed. */
  #cutAt: { readonly bytes: number; readonly transfer: string } | undefined;
  #cutOrResume(
    event: Extract<ServerEvent, { event: "transfer" }>,
    vehicle: DemoVehicle,
    agents: Map<string, StartedProcess>,
    restarter: Restarter,
  ): void {
    const share = event.bytes / event.totalBytes;
    if (this.#cutAt === undefined && share >= 0.3 && share <= 0.8) {
      this.#cutAt = { bytes: event.bytes, transfer: event.transfer };
      const agent = agents.get(vehicle.device);
      this.#showNote(
        `kill -9 of ${vehicle.device} (process ${agent?.pid ?? "?"}) at ${Math.round(100 * share)} % of a transfer`,
      );
      agent?.kill("SIGKILL");
      void agent?.ended.then(() => {
        if (this.#hasEnded) return;
        agents.set(vehicle.device, restarter.restart(vehicle));
        this.#onRestart();
        this.#showNote(`${vehicle.device} restarts`);
      });
      return;
    }
    if (this.#cutAt !== undefined && this.cut === undefined && event.resumedBytes > 0) {
      this.cut = {
        atBytes: this.#cutAt.bytes,
        resumedBytes: event.resumedBytes,
        totalBytes: event.totalBytes,
      };
      this.#showNote(
        `the transfer of ${vehicle.device} resumes at ${Math.round((100 * event.resumedBytes) / event.totalBytes)} %: ${formatBytes(event.resumedBytes)} were not sent again`,
      );
    }
  }

  #showNote(text: string): void {
    this.#state = withNote(this.#state, text);
    if (!this.#screen.isTerminal) this.printLine(text);
  }
}

function missingRounds(missing: ReadonlyMap<string, number>): string {
  return [...missing]
    .filter(([, count]) => count > 0)
    .map(([key, count]) => `${key} lacks ${count} rounds`)
    .join(", ");
}
