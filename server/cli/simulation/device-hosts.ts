/**
 * The processes that hold the simulated devices. They are programs of the agent, which the server never imports, so
 * they are started by their path and spoken to by messages.
 */
import { fork, type ChildProcess } from "node:child_process";
import { fileURLToPath } from "node:url";
import { forkArguments } from "../../../shared/adapters/own-program.js";
import { isErrorCode, StemmaError } from "../../../shared/errors.js";
import { memoryOfServices } from "./memory-of-services.js";
import type { DeviceOrder, HostOrder, HostReport } from "../../../shared/simulation/simulation-messages.js";

const hostProgram = fileURLToPath(new URL("../../../agent/simulation/main.js", import.meta.url));
/** The time that a process's devices may take to end their connections. */
const endMs = 20_000;

interface Answer {
  readonly number: number;
  readonly value?: HostReport | null;
  readonly error?: { readonly code: string; readonly message: string };
}

class DeviceHost {
  readonly #child: ChildProcess;
  readonly #waiting = new Map<
    number,
    { readonly resolve: (value: HostReport | null) => void; readonly reject: (error: Error) => void }
  >();
  #number = 0;
  #ended: StemmaError | undefined;

  constructor() {
    // The program gets a group of its own: Ctrl-C in the terminal is for the command, which ends it.
    this.#child = fork(hostProgram, [], {
      execArgv: [...forkArguments()],
      stdio: ["ignore", "ignore", "inherit", "ipc"],
      env: { ...process.env, ...memoryOfServices },
      detached: true,
    });
    this.#child.on("message", (message) => {
      this.#answered(message as Answer);
    });
    this.#child.on("exit", (code, signal) => {
      this.#ended = new StemmaError(
        "CHECK_FAILED",
        `A process of simulated devices ended (${String(signal ?? code)}). Look for its last words above; where memory was short, simulate fewer devices.`,
      );
      for (const { reject } of this.#waiting.values()) reject(this.#ended);
      this.#waiting.clear();
    });
  }

  ask(order: HostOrder): Promise<HostReport | null> {
    if (this.#ended !== undefined) return Promise.reject(this.#ended);
    const number = ++this.#number;
    return new Promise((resolve, reject) => {
      this.#waiting.set(number, { resolve, reject });
      this.#child.send({ number, order });
    });
  }

  kill(): void {
    if (this.#ended === undefined) this.#child.kill("SIGKILL");
  }

  #answered({ number, value = null, error }: Answer): void {
    const waiting = this.#waiting.get(number);
    this.#waiting.delete(number);
    if (error === undefined) waiting?.resolve(value);
    else waiting?.reject(new StemmaError(isErrorCode(error.code) ? error.code : "INTERNAL", error.message));
  }
}

export class DeviceHosts {
  readonly #hosts: readonly DeviceHost[];
  /** The process of each device. */
  readonly #places = new Map<string, DeviceHost>();

  constructor(processes: number) {
    this.#hosts = Array.from({ length: processes }, () => new DeviceHost());
  }

  /** Resolves when all have been started; they connect meanwhile. */
  async add(orders: readonly DeviceOrder[]): Promise<void> {
    for (const { device } of orders)
      this.#places.set(device, this.#hosts[this.#places.size % this.#hosts.length] as DeviceHost);
    await this.#each((host) => {
      const devices = orders.filter(({ device }) => this.#places.get(device) === host);
      return host.ask({ do: "add", devices });
    });
  }

  /** More saves of each device, in milliseconds from now. */
  async save(savesAtMs: ReadonlyMap<string, readonly number[]>): Promise<void> {
    await this.#each((host) =>
      host.ask({
        do: "save",
        savesAtMs: Object.fromEntries([...savesAtMs].filter(([device]) => this.#places.get(device) === host)),
      }),
    );
  }

  async report(): Promise<HostReport> {
    return joinReports(await this.#each((host) => host.ask({ do: "report" })));
  }

  /** Ends the devices' connections in order, then their processes. */
  async end(): Promise<HostReport> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        reject(new StemmaError("TIMED_OUT", "The simulated devices did not end in time; they were killed."));
      }, endMs);
    });
    try {
      return joinReports(await Promise.race([this.#each((host) => host.ask({ do: "end" })), late]));
    } finally {
      clearTimeout(timer);
      this.kill();
    }
  }

  /** Kills the devices, as pulled plugs. */
  kill(): void {
    for (const host of this.#hosts) host.kill();
  }

  #each<T>(ask: (host: DeviceHost) => Promise<T>): Promise<T[]> {
    return Promise.all(this.#hosts.map(ask));
  }
}

/** Joins the reports of all processes. Pure. */
export function joinReports(answers: readonly (HostReport | null)[]): HostReport {
  const reports = answers.filter((report) => report !== null);
  const sum = (of: (report: HostReport) => number): number =>
    reports.reduce((all, report) => all + of(report), 0);
  const counted = (of: (report: HostReport) => Readonly<Record<string, number>>): Record<string, number> => {
    const counts: Record<string, number> = {};
    for (const report of reports)
      for (const [key, count] of Object.entries(of(report))) counts[key] = (counts[key] ?? 0) + count;
    return counts;
  };
  return {
    devices: sum(({ devices }) => devices),
    connected: sum(({ connected }) => connected),
    runs: counted(({ runs }) => runs),
    saves: reports.flatMap(({ saves }) => saves),
    savesToCome: sum(({ savesToCome }) => savesToCome),
    bytesUp: sum(({ bytesUp }) => bytesUp),
    bytesDown: sum(({ bytesDown }) => bytesDown),
    breaks: sum(({ breaks }) => breaks),
    troubles: counted(({ troubles }) => troubles),
    examples: reports.flatMap(({ examples }) => examples),
    residentBytes: sum(({ residentBytes }) => residentBytes),
  };
}
