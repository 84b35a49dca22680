/**
 * Follows a fleet: asks for its devices and rollouts, and listens to events between. On a terminal a live screen with a
 * page for each device, otherwise a line for each event. A server that goes away is waited for.
 */
import { setTimeout as pause } from "node:timers/promises";
import type { ReadStream, WriteStream } from "node:tty";
import { defined } from "../../../shared/defined.js";
import { messageOf } from "../../../shared/error-text.js";
import { printable } from "../../../shared/printable.js";
import type { ServerEvent } from "../../interface/api/event-schemas.js";
import type { ServerOperations } from "../../interface/api/server-operations.js";
import { describeDevice } from "../device-text.js";
import { factLine } from "../fact-columns.js";
import { devicePage, fleetScreen } from "./fleet-text.js";
import { emptyView, eventLine, viewAfter, type FleetView } from "./fleet-view.js";
import { Terminal, type Key } from "./terminal.js";

/** The milliseconds between two drawings, between two requests after events, and between two requests without any. */
const every = { draw: 250, changed: 1000, quiet: 10_000, retry: 2000 } as const;
const pageEvents = 50;

export interface WatchOptions {
  readonly operations: Pick<ServerOperations, "devices" | "rollouts" | "device" | "deviceEvents" | "events">;
  readonly fleet: string;
  /** Ends it. */
  readonly signal: AbortSignal;
}

/** A line for each event, until the signal aborts. */
export async function printEvents(
  { operations, fleet, signal }: WatchOptions,
  print: (event: ServerEvent, line: string) => void,
): Promise<void> {
  for await (const event of operations.events(signal)) {
    const line = event.fleet === fleet || event.event === "missed" ? eventLine(event) : undefined;
    if (line !== undefined) print(event, printable(line));
  }
}

interface Page {
  readonly device: string;
  readonly lines: readonly string[];
  readonly events: readonly string[];
}

export class FleetWatch {
  #view: FleetView;
  #selected = 0;
  #page: Page | undefined;
  #problem: string | undefined;
  #isChanged = true;
  readonly #ended = new AbortController();
  readonly #terminal: Terminal;

  constructor(
    private readonly options: WatchOptions,
    input: ReadStream,
    output: WriteStream,
    hasColours: boolean,
  ) {
    this.#view = emptyView(options.fleet);
    const handlers = { onKey: (key: Key) => void this.#onKey(key), onResize: () => this.#draw() };
    this.#terminal = new Terminal(input, output, handlers, hasColours);
  }

  /** Resolves when the person ends it. @throws where the first answer fails */
  async run(): Promise<void> {
    const signal = AbortSignal.any([this.options.signal, this.#ended.signal]);
    await this.#ask();
    this.#terminal.open();
    try {
      await Promise.all([this.#follow(signal), this.#refresh(signal), this.#redraw(signal)]);
    } finally {
      this.#terminal.close();
    }
  }

  async #ask(): Promise<void> {
    const { operations, fleet } = this.options;
    const [devices, rollouts] = await Promise.all([
      operations.devices({ fleet }),
      operations.rollouts({ fleet }),
    ]);
    this.#view = { ...this.#view, devices, rollouts };
    this.#select(this.#selected);
    if (this.#page !== undefined) await this.#open(this.#page.device);
  }

  async #follow(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        for await (const event of this.options.operations.events(signal)) {
          this.#view = viewAfter(this.#view, event);
          this.#isChanged ||= event.event !== "transfer";
        }
      } catch (error) {
        if (!signal.aborted) this.#problem = `the server cannot be reached: ${messageOf(error)}`;
      }
      await sleep(every.retry, signal);
    }
  }

  async #refresh(signal: AbortSignal): Promise<void> {
    let askedMs = performance.now();
    while (!signal.aborted) {
      await sleep(every.changed, signal);
      if (signal.aborted) return;
      const isDue =
        this.#isChanged || this.#problem !== undefined || performance.now() - askedMs > every.quiet;
      if (!isDue) continue;
      this.#isChanged = false;
      askedMs = performance.now();
      try {
        await this.#ask();
        this.#problem = undefined;
      } catch (error) {
        this.#problem = `the server cannot be reached: ${messageOf(error)}`;
      }
    }
  }

  async #redraw(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      this.#draw();
      await sleep(every.draw, signal);
    }
  }

  #draw(): void {
    const { size } = this.#terminal;
    const page = this.#page;
    this.#terminal.draw(
      page === undefined
        ? fleetScreen(this.#view, size, {
            selected: this.#selected,
            nowMs: Date.now(),
            ...defined({ problem: this.#problem }),
          })
        : devicePage(page.lines, page.events, size),
    );
  }

  async #onKey(key: Key): Promise<void> {
    const { rows } = this.#terminal.size;
    switch (key) {
      case "quit":
        this.#ended.abort();
        return;
      case "enter": {
        const device = this.#view.devices[this.#selected]?.device;
        if (device !== undefined) await this.#open(device).catch(() => (this.#isChanged = true));
        break;
      }
      case "back":
        this.#page = undefined;
        break;
      case "first":
        this.#select(0);
        break;
      case "last":
        this.#select(this.#view.devices.length - 1);
        break;
      default:
        this.#select(this.#selected + steps[key] * (key.startsWith("page") ? Math.max(1, rows - 12) : 1));
    }
    this.#draw();
  }

  #select(index: number): void {
    this.#selected = Math.max(0, Math.min(index, this.#view.devices.length - 1));
  }

  async #open(device: string): Promise<void> {
    const { operations, fleet } = this.options;
    const [found, { facts }] = await Promise.all([
      operations.device({ fleet, device }),
      operations.deviceEvents({ fleet, device, limit: pageEvents }),
    ]);
    this.#page = { device, lines: describeDevice(found), events: facts.map(factLine) };
  }
}

const steps = { up: -1, down: 1, "page-up": -1, "page-down": 1 } as const;

async function sleep(ms: number, signal: AbortSignal): Promise<void> {
  await pause(ms, undefined, { signal }).catch(() => undefined);
}
