/** A whole simulation, from its server to the summary, and nothing of it left behind. */
import { formatBytes } from "../../../shared/cli/output.js";
import { StemmaError } from "../../../shared/errors.js";
import type { HostReport } from "../../../shared/simulation/simulation-messages.js";
import type { ServerOperations } from "../../interface/api/server-operations.js";
import { DeviceHosts } from "./device-hosts.js";
import { peakMemory, startSimulationServer } from "./own-server.js";
import { isStopped, Simulation, type SimulationParts } from "./run-simulation.js";
import { deviceNames, removeSimulated, requireSimulationFleet } from "./simulated-fleet.js";
import {
  spreadOf,
  type RolloutOutcome,
  type SimulatedRollout,
  type SimulationRequest,
  type SimulationSummary,
} from "./simulation.js";

type Surroundings = Pick<SimulationParts, "signal" | "note" | "progress">;

/** Rehearses a rollout with all of it on a server of its own. @throws CHECK_FAILED where server or devices end */
export async function rehearse(
  request: SimulationRequest,
  rollout: SimulatedRollout,
  surroundings: Surroundings,
): Promise<SimulationSummary> {
  const server = await startSimulationServer(request.fleet, rollout.tls);
  const hosts = new DeviceHosts(request.processes);
  try {
    surroundings.note(`a server of its own runs (process ${server.pid}), on a temporary home`);
    const names = deviceNames(request.devices);
    const note = withMemory(surroundings.note, server.pid);
    const parts = { ...surroundings, note, operations: server.operations, hosts };
    const simulation = new Simulation(parts, request, names);
    let outcome: RolloutOutcome | null = null;
    return await finished(simulation, parts, request, {
      serverPid: server.pid,
      run: async () => {
        const base = await simulation.saveModel(rollout.modelBytes);
        await simulation.start(base);
        await simulation.save(Math.max(0, request.saves - 1));
        await simulation.untilReported(Math.max(0, request.saves - 1));
        outcome = await simulation.rollOut(rollout, base);
        await simulation.untilReported(request.saves);
      },
      outcome: () => outcome,
    });
  } catch (error) {
    throw await server.blame(error);
  } finally {
    hosts.kill();
    await server.remove();
  }
}

/** Among the fleets of a running server, until the signal or the end of its time. @throws NOT_ALLOWED */
export async function joinServer(
  request: SimulationRequest,
  model: string,
  operations: ServerOperations,
  surroundings: Surroundings,
): Promise<SimulationSummary> {
  const { fleet } = request;
  const left = await requireSimulationFleet(operations, fleet);
  const { mqttUrl, pid } = await operations.health();
  if (mqttUrl === undefined)
    throw new StemmaError(
      "SERVER_UNREACHABLE",
      "Simulated devices join a running server, and none runs on this home. Start one with `stemma server`, or leave out --join.",
    );
  const hosts = new DeviceHosts(request.processes);
  const names = deviceNames(request.devices);
  try {
    const parts = { ...surroundings, operations, hosts };
    const simulation = new Simulation(parts, request, names);
    return await finished(simulation, parts, request, {
      serverPid: pid,
      run: async () => {
        await simulation.start(model);
        await simulation.save(request.saves);
        await simulation.idle();
      },
      outcome: () => null,
    });
  } finally {
    hosts.kill();
    const known = new Set((await operations.devices({ fleet })).map(({ device }) => device));
    await removeSimulated(
      operations,
      fleet,
      [...new Set([...names, ...left])].filter((name) => known.has(name)),
    );
    surroundings.note(`the simulated devices are revoked and out of the lists of ${fleet}`);
  }
}

/** Tells how much memory the server took after a step in which it took more than before, so that this step is seen. */
function withMemory(note: Surroundings["note"], pid: number): Surroundings["note"] {
  let told = "";
  return (text) => {
    note(text);
    const bytes = peakMemory(pid);
    const most = bytes === undefined ? told : formatBytes(bytes);
    if (most !== told) note(`the server took ${most} at most until then`);
    told = most;
  };
}

/** Runs it, then ends the devices, and counts. */
async function finished(
  simulation: Simulation,
  { operations, hosts }: SimulationParts,
  { fleet, devices }: SimulationRequest,
  {
    serverPid,
    run,
    outcome,
  }: {
    readonly serverPid: number | undefined;
    readonly run: () => Promise<void>;
    readonly outcome: () => RolloutOutcome | null;
  },
): Promise<SimulationSummary> {
  let wasStopped = false;
  try {
    await run();
  } catch (error) {
    if (!isStopped(error)) throw error;
    wasStopped = true;
  }
  const last = await hosts.report();
  const peakBytes = serverPid === undefined ? undefined : peakMemory(serverPid);
  // The latest report counts where devices cannot end in order in time.
  const end = await hosts.end().catch(() => last);
  return {
    fleet,
    devices,
    connected: last.connected,
    wasStopped,
    tookMs: simulation.tookMs,
    reports: await countReports(operations, fleet, end),
    bytesUp: end.bytesUp,
    bytesDown: end.bytesDown,
    breaks: end.breaks,
    server: { peakBytes: peakBytes ?? null },
    devicesBytes: end.residentBytes,
    troubles: end.troubles,
    examples: end.examples,
    rollout: outcome(),
  };
}

const order = ["pending", "recorded", "stored", "released"] as const;

async function countReports(
  operations: Pick<ServerOperations, "models">,
  fleet: string,
  { saves }: HostReport,
): Promise<SimulationSummary["reports"]> {
  const known = new Set((await operations.models({ fleet })).map(({ versionId }) => versionId));
  const reached = (standing: (typeof order)[number]): number =>
    saves.filter((save) => order.indexOf(save.standing) >= order.indexOf(standing)).length;
  return {
    saved: saves.length,
    recorded: reached("recorded"),
    stored: reached("stored"),
    released: reached("released"),
    lost: saves.filter(({ versionId, standing }) => standing !== "pending" && !known.has(versionId)).length,
    waiting: saves.length - reached("recorded"),
    recordedAfterMs: spreadOf(saves.flatMap(({ recordedAfterMs }) => recordedAfterMs ?? [])),
  };
}
