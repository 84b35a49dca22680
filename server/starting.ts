/**
 * Tells how far a server is while it opens its fleets: in the home's run folder to commands of this machine, on its
 * HTTP port to everyone, and to the service manager, which would end a start that takes long.
 */
import type { FastifyInstance } from "fastify";
import { extendStart } from "../shared/adapters/service-manager.js";
import { defined } from "../shared/defined.js";
import type { Clock, Log } from "../shared/ports.js";
import type { HttpTls } from "./interface/http/app.js";
import { whatIsOpened } from "./interface/http/http-errors.js";
import type { HttpLimits } from "./interface/http/http-limits.js";
import type { StartingServer } from "./interface/http/local-server.js";
import { startingApp } from "./interface/http/starting-app.js";
import { listenOnTcp } from "./http-listeners.js";
import type { OpeningProgress } from "./storage/repository/home.js";

/** Milliseconds between two reports to commands, to the service manager and in the log. */
const reportMs = 5000;
/** Milliseconds that the service manager waits for the next report. */
const silenceMs = 120_000;

interface StartingPort {
  readonly host: string;
  readonly httpPort: number;
  readonly httpLimits: HttpLimits;
  readonly tls: HttpTls | undefined;
}

interface StartParts {
  readonly clock: Clock;
  readonly log: Pick<Log, "info">;
  /** Ends the opening of a fleet. */
  readonly signal?: AbortSignal | undefined;
}

export class ServerStart {
  readonly #startedAtMs: number;
  #progress: OpeningProgress | undefined;
  #reportedAtMs = 0;
  #report: ((state: StartingServer) => Promise<void>) | undefined;
  #reporting: Promise<void> = Promise.resolve();
  #app: FastifyInstance | undefined;

  constructor(private readonly parts: StartParts) {
    this.#startedAtMs = parts.clock.now();
  }

  /** The home's port that is told of a fleet that is opened. @throws the signal's reason */
  readonly onOpening = (progress: OpeningProgress): void => {
    const { clock, log, signal } = this.parts;
    signal?.throwIfAborted();
    this.#progress = progress;
    const nowMs = clock.monotonic();
    const { fleet, packs, facts } = progress;
    const isBegun = packs !== undefined || facts !== undefined;
    // A fleet may also be opened after the start.
    if (this.#report === undefined || !isBegun || nowMs - this.#reportedAtMs < reportMs) return;
    this.#reportedAtMs = nowMs;
    log.info("opening", { fleet, text: whatIsOpened(progress) });
    extendStart(silenceMs);
    const state = this.#state();
    // Whoever waits knows of this server already: that its progress cannot be written keeps no server from starting.
    this.#reporting = this.#reporting.then(() => this.#report?.(state)).catch(() => undefined);
  };

  /** @param report writes the file by which commands on this machine wait for this server */
  async publish(report: (state: StartingServer) => Promise<void>): Promise<void> {
    await report(this.#state());
    this.#reportedAtMs = this.parts.clock.monotonic();
    this.#report = report;
  }

  #state(): StartingServer {
    return {
      pid: process.pid,
      startingAtMs: this.#startedAtMs,
      ...defined({ opening: this.#progress }),
    };
  }

  /** Answers on the port until `end`; returns the URL. @throws PORT_TAKEN, SERVER_UNREACHABLE */
  async listen({ host, httpPort, httpLimits: limits, tls }: StartingPort): Promise<string> {
    this.#app = startingApp({ limits, tls, progress: () => this.#progress });
    return await listenOnTcp(this.#app, { host, port: httpPort });
  }

  /** Ends the answers and reports: those of the server that has started follow. */
  async end(): Promise<void> {
    this.#report = undefined;
    await this.#reporting;
    await this.#app?.close();
    this.#app = undefined;
  }
}
