/**
 * What must hold whatever happens: the server states what devices run; nothing acknowledged is lost; no byte is wrong;
 * an honest device is served. Each is told as a violation; run.ts decides whether it is a known fault.
 */
import type { ErrorCode } from "../../shared/errors.js";
import { isStemmaError } from "../../shared/errors.js";
import { messageWithCode } from "../../shared/error-text.js";
import type { LogFields } from "../../shared/ports.js";
import { tensorId } from "../../shared/tensor/hash.js";
import { tensorOfSource, type Hash } from "../../shared/tensor/tensor.js";
import type { RunningServer } from "./simulated-server.js";
import { modelTensors } from "./model-file.js";
import type { Receipt } from "./truth.js";
import { line, type Vehicle } from "./vehicle.js";
import type { World } from "./world.js";

export interface Violation {
  readonly invariant: string;
  readonly text: string;
  /** Undefined: it is of the server alone. */
  readonly vehicle?: Vehicle;
  readonly atMs: number;
}

/**
 * How long the server may state another version than a connected device runs: reports and receipts may be lost, and
 * are sent again within two minutes each.
 */
const agreementMs = 15 * 60_000;
/** How long a connected device may not take what is assigned to it: lost offers come again after 2, 6, 14 minutes. */
const assignedMs = 30 * 60_000;
/** Why a server or an agent may fail to start: its disk does not take what it has to write. */
const startCodes: ReadonlySet<ErrorCode> = new Set([
  "DISK_FULL",
  "FILE_FAILED",
  "STORE_FAILED",
  "JOURNAL_STOPPED",
]);
const receiptKinds: readonly string[] = ["recorded", "stored", "released"] satisfies readonly Receipt[];

interface Disagreement {
  readonly stated: Hash | undefined;
  readonly runs: Hash | undefined;
  readonly sinceMs: number;
  readonly isTold: boolean;
}

export class Invariants {
  /** Since when server and device have disagreed without a reason that passes. */
  readonly #disagree = new Map<Vehicle, Disagreement>();
  /** Since when each device has not taken what is assigned to it. */
  readonly #waiting = new Map<
    Vehicle,
    { readonly assigned: Hash; readonly sinceMs: number; readonly isTold: boolean }
  >();
  /** When each device joined a rollout, by the rollout's name. */
  readonly #joinedMs = new Map<string, Map<string, number>>();
  checked = { agreements: 0, returns: 0, receipts: 0, runs: 0, rollouts: 0, recoveries: 0 };

  constructor(
    private readonly world: World,
    private readonly onViolation: (violation: Violation) => void,
  ) {}

  /** After each step. */
  afterStep(): void {
    const { running } = this.world.server;
    for (const vehicle of this.world.vehicles) {
      if (!vehicle.machine.isRunning) {
        this.#disagree.delete(vehicle);
        continue;
      }
      const { runs } = vehicle;
      if (runs !== undefined)
        this.world.truth.ran(vehicle.name, { atMs: this.world.time.nowMs, versionId: runs });
      if (running === undefined || !this.#isSteady(running, vehicle)) {
        this.#disagree.delete(vehicle);
        this.#waiting.delete(vehicle);
        continue;
      }
      this.#checkAgreement(vehicle, runs);
      this.#checkAssigned(running, vehicle, runs);
    }
  }

  /** True while nothing keeps the server from knowing what the device runs. */
  #isSteady({ ingest }: RunningServer, vehicle: Vehicle): boolean {
    const { connection, isWelcomed, machine } = vehicle;
    return (
      isWelcomed &&
      connection?.reaches("client") === true &&
      connection.reaches("broker") &&
      ingest.isOnline(vehicle.name) &&
      !machine.disk.isFull &&
      !this.world.server.machine.disk.isFull
    );
  }

  /** A connected device runs what is assigned to it, or has run it since. */
  #checkAssigned({ repository }: RunningServer, vehicle: Vehicle, runs: Hash | undefined): void {
    const { nowMs } = this.world.time;
    const assigned = repository.assignment(vehicle.name, line);
    const isDone =
      assigned === undefined ||
      runs === assigned ||
      repository.isAssignmentAnswered(vehicle.name, line) ||
      repository.get(assigned)?.state === "retired";
    if (isDone) {
      this.#waiting.delete(vehicle);
      return;
    }
    const waiting = this.#waiting.get(vehicle);
    if (waiting?.assigned !== assigned) {
      this.#waiting.set(vehicle, { assigned, sinceMs: nowMs, isTold: false });
      return;
    }
    if (nowMs - waiting.sinceMs < assignedMs || waiting.isTold) return;
    this.#waiting.set(vehicle, { ...waiting, isTold: true });
    this.#violated(
      "assigned versions",
      `${short(assigned)} was assigned to ${vehicle.name}, which was connected for ${Math.round((nowMs - waiting.sinceMs) / 1000)} s and runs ${short(runs)}`,
      vehicle,
    );
  }

  #checkAgreement(vehicle: Vehicle, runs: Hash | undefined): void {
    this.checked.agreements++;
    const stated = this.world.stated(vehicle);
    if (stated !== vehicle.lastStated) {
      if (stated !== undefined && stated === runs && vehicle.statedInSession.has(stated))
        this.checked.returns++;
      vehicle.lastStated = stated;
      if (stated !== undefined) vehicle.statedInSession.add(stated);
    }
    if (stated === runs) {
      this.#disagree.delete(vehicle);
      return;
    }
    const { nowMs } = this.world.time;
    const before = this.#disagree.get(vehicle);
    if (before === undefined || before.stated !== stated || before.runs !== runs) {
      this.#disagree.set(vehicle, { stated, runs, sinceMs: nowMs, isTold: false });
      return;
    }
    const { sinceMs, isTold } = before;
    if (nowMs - sinceMs < agreementMs || isTold) return;
    this.#disagree.set(vehicle, { ...before, isTold: true });
    this.#violated(
      "agreement",
      `the server states that ${vehicle.name} runs ${short(stated)}, and it has run ${short(runs)} for ${Math.round((nowMs - sinceMs) / 1000)} s while it was connected`,
      vehicle,
    );
  }

  /**
   * Now and then: a server whose journal or store takes nothing more ends, so that its supervisor starts it again.
   * @returns whether it goes on all the same
   */
  async checkUsable({ repository, process }: RunningServer): Promise<boolean> {
    const isRefused = (error: unknown): boolean => isStemmaError(error, "JOURNAL_STOPPED");
    const isFailed = (error: unknown): boolean => isStemmaError(error, "STORE_FAILED");
    const journal = await repository.journal.append([]).then(() => false, isRefused);
    const store = await repository.append().then(() => false, isFailed);
    if (!process.isRunning || !(journal || store)) return false;
    if (journal) this.#violated("stopped journal", "the server goes on, and its journal takes no more facts");
    else this.#violated("failed store", "the server goes on, and its object store takes no more objects");
    return true;
  }

  restless(steps: number): void {
    this.#violated("rest", `${steps} things happened at the same time, and more are to come`);
  }

  notStarted(name: string, error: unknown): void {
    if (isStemmaError(error) && startCodes.has(error.code)) return;
    this.#violated("start", `${name} cannot start: ${messageWithCode(error)}`, this.world.vehicle(name));
  }

  signedWrongly(text: string): void {
    this.#violated("nothing is signed by a clock in doubt", text);
  }

  unexpected(what: string, error: unknown): void {
    this.#violated("operations", `${what} failed unexpectedly: ${messageWithCode(error)}`);
  }

  vehicleLogged(vehicle: Vehicle, event: string, fields: LogFields): void {
    const versionId = fields["versionId"] as Hash | undefined;
    if (receiptKinds.includes(event) && versionId !== undefined)
      this.#receipt(vehicle, versionId, event as Receipt);
    if (event === "activated" || event === "started") this.#checkRun(vehicle);
    if (event === "forgotten")
      for (const gone of fields["versions"] as readonly Hash[]) this.#checkForgotten(vehicle, gone);
    if (event === "model-damaged" || event === "word-not-handled" || event === "failed")
      this.#troubled(vehicle, event, fields);
  }

  serverLogged(event: string, fields: LogFields): void {
    if (event === "device-quarantined")
      this.#violated(
        "honest devices",
        `${String(fields["device"])} was quarantined: ${String(fields["because"])}`,
        this.world.vehicle(String(fields["device"])),
      );
    if (event === "rollout-wave") this.#waveBegan(String(fields["rollout"]));
    if (event === "rollout-phase" && fields["phase"] === "done")
      this.#checkRollout(String(fields["rollout"]));
    if (event === "model-damaged" && !this.world.server.machine.disk.isFull)
      this.#violated("no wrong byte", `the server takes a model for damaged: ${String(fields["message"])}`);
  }

  #waveBegan(name: string): void {
    const joined = this.#joinedMs.get(name) ?? new Map<string, number>();
    this.#joinedMs.set(name, joined);
    for (const device of this.world.server.running?.repository.rollout(name).members.keys() ?? [])
      if (!joined.has(device)) joined.set(device, this.world.time.nowMs);
  }

  /** A done rollout has reached some device, and those that it counts as switched have run its version since. */
  #checkRollout(name: string): void {
    const { world } = this;
    const repository = world.server.running?.repository;
    if (repository === undefined) return;
    const { members, versionId } = repository.rollout(name);
    if (members.size === 0)
      this.#violated("done rollouts", `the rollout ${name} is done and has reached nobody`);
    for (const { device, judged, switched = false } of members.values()) {
      const joinedMs = this.#joinedMs.get(name)?.get(device);
      const isStillSwitched =
        repository.device(device)?.state === "enrolled" &&
        repository.assignment(device, line) === versionId &&
        repository.isAssignmentAnswered(device, line);
      const isSwitched = judged?.verdict === "passed" && (switched || isStillSwitched);
      if (!isSwitched || joinedMs === undefined) continue;
      this.checked.rollouts++;
      const runs = world.truth.runsOf(device);
      const since = runs.filter((_, at) => (runs[at + 1]?.atMs ?? Infinity) > joinedMs);
      if (since.some((run) => world.truth.isFrom(run.versionId, versionId))) continue;
      this.#violated(
        "done rollouts",
        `the rollout ${name} of ${short(versionId)} counts ${device} as switched, which has not run it since it joined`,
        world.vehicle(device),
      );
    }
  }

  /** After each start of the server: whatever it acknowledged is there. */
  serverStarted({ repository }: RunningServer): void {
    for (const [versionId, kind] of this.world.truth.receipts)
      this.#checkReceipt(repository, versionId, kind);
  }

  #receipt(vehicle: Vehicle, versionId: Hash, kind: Receipt): void {
    this.world.truth.receipt(versionId, kind);
    const { running } = this.world.server;
    if (running !== undefined) this.#checkReceipt(running.repository, versionId, kind, vehicle);
  }

  #checkReceipt(
    repository: RunningServer["repository"],
    versionId: Hash,
    kind: Receipt,
    vehicle?: Vehicle,
  ): void {
    this.checked.receipts++;
    const state = repository.get(versionId)?.state;
    const order = ["recorded", "stored", "released", "retired"];
    if (state === undefined || order.indexOf(state) < order.indexOf(kind))
      this.#violated(
        "nothing acknowledged is lost",
        `a device has the receipt "${kind}" of ${short(versionId)}, which is ${state ?? "unknown"} at the server`,
        vehicle,
      );
  }

  /**
   * A device deletes what it made only after the server has released it. What an earlier enrolment of it made and this
   * one fetched, as what others made, is a copy.
   */
  #checkForgotten(vehicle: Vehicle, versionId: Hash): void {
    const { truth } = this.world;
    const by = truth.versions.get(versionId)?.by;
    const isOwn = by?.device === vehicle.name && by.generation === vehicle.generation;
    if (!isOwn || truth.receipts.get(versionId) === "released") return;
    this.#violated(
      "nothing acknowledged is lost",
      `${vehicle.name} deleted its model ${short(versionId)}, whose newest receipt is ${truth.receipts.get(versionId) ?? "none"}`,
      vehicle,
    );
  }

  /** What the software of a device reads is the model that its link names. */
  #checkRun(vehicle: Vehicle): void {
    const { runs, modelBytes, manifest } = vehicle;
    if (runs === undefined) return;
    this.checked.runs++;
    const root = manifest?.root as Hash | undefined;
    const tensors = root === undefined ? undefined : this.world.truth.tensorsOf(root);
    const recorded = this.world.server.running?.repository.get(runs)?.record.root;
    const isRight =
      manifest?.versionId === runs &&
      modelBytes !== undefined &&
      tensors !== undefined &&
      haveSame(tensors, modelTensors(modelBytes)) &&
      (recorded === undefined || recorded === root);
    if (!isRight)
      this.#violated("no wrong byte", `what ${vehicle.name} runs is not the model ${short(runs)}`, vehicle);
  }

  #troubled(vehicle: Vehicle, event: string, { code, text }: LogFields): void {
    const { disk } = vehicle.machine;
    const isOfDisk = ["FILE_FAILED", "DISK_FULL", "JOURNAL_STOPPED", "STORE_FAILED"].includes(String(code));
    const isKnown = isOfDisk || /\[(FILE_FAILED|DISK_FULL|JOURNAL_STOPPED|STORE_FAILED)\]/.test(String(text));
    if (event === "model-damaged" || !(isKnown && (disk.isFull || disk.faults > 0)))
      this.#violated("honest errors", `${vehicle.name} logs ${event}: ${String(text)}`, vehicle);
  }

  /** Once all is mended and time has passed: everything has converged, and every version is recovered. */
  async atEnd({ repository }: RunningServer): Promise<void> {
    for (const vehicle of this.world.vehicles) {
      const known = repository.device(vehicle.name);
      if (known?.state !== "enrolled" || known.generation !== vehicle.generation) continue;
      if (!vehicle.isWelcomed)
        this.#violated("service", `${vehicle.name} is not served though nothing is wrong any more`, vehicle);
      this.#checkRun(vehicle);
    }
    this.#checkSaved(repository);
    this.serverStarted({ repository } as RunningServer);
    for (const { versionId, record } of repository.versions())
      await this.#checkRecovery(repository, versionId, record.root);
  }

  /** What a device saved is at the server now, unless its enrolment ended before. */
  #checkSaved(repository: RunningServer["repository"]): void {
    for (const [versionId, { by }] of this.world.truth.versions) {
      const known = by && repository.device(by.device);
      const isServed = known?.state === "enrolled" && known.generation === by?.generation;
      const state = repository.get(versionId)?.state;
      if (by === undefined ? state === undefined : isServed && (state === undefined || state === "recorded"))
        this.#violated(
          "nothing acknowledged is lost",
          `the model ${short(versionId)} of ${by?.device ?? "the server"} was saved, and the server has it as ${state ?? "unknown"}`,
          by && this.world.vehicle(by.device),
        );
    }
  }

  async #checkRecovery(repository: RunningServer["repository"], versionId: Hash, root: Hash): Promise<void> {
    this.checked.recoveries++;
    try {
      const { sources, verifiedRoot } = await repository.recover(versionId);
      const tensors = await Promise.all(sources.map((source) => tensorOfSource(source)));
      const ids = tensors.map((tensor) => tensorId(tensor, tensor.bytes));
      if (verifiedRoot === root && haveSame(this.world.truth.tensorsOf(root) ?? [], ids)) return;
      this.#violated(
        "no wrong byte",
        `${short(versionId)} is recovered with other tensors than it was made of`,
      );
    } catch (error) {
      this.#violated("no wrong byte", `${short(versionId)} cannot be recovered: ${messageWithCode(error)}`);
    }
  }

  #violated(invariant: string, text: string, vehicle?: Vehicle): void {
    const { nowMs } = this.world.time;
    this.onViolation({ invariant, text, atMs: nowMs, ...(vehicle === undefined ? {} : { vehicle }) });
  }
}

function haveSame(a: readonly Hash[], b: readonly Hash[]): boolean {
  const sorted = [...b].sort();
  return a.length === b.length && [...a].sort().every((id, at) => id === sorted[at]);
}

function short(versionId: Hash | undefined): string {
  return versionId?.slice(0, 12) ?? "nothing";
}
