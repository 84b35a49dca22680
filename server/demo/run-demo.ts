/**
 * The main job: a server and a small fleet of agents as separate processes, from the first training to
 * exact recovery. Drives the same commands and operations that people use; knows no inside of either.
 */
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { StemmaError } from "../../shared/errors.js";
import { formatBytes, formatDuration, type Output } from "../../shared/cli/output.js";
import { connectOperations } from "../http/client.js";
import { findLocalServer } from "../http/local-server.js";
import type { ServerOperations } from "../api/server-operations.js";
import { ChildProcesses, type StartedProcess } from "./child-processes.js";
import { findData, prepareDemoHome, type DemoFolders } from "./demo-home.js";
import {
  agentConfigOf,
  demoFleet,
  planDemo,
  type DemoBase,
  type DemoPlan,
  type DemoVehicle,
} from "./demo-plan.js";
import { FleetWatch } from "./fleet-watch.js";
import { proveRecoveries } from "./prove-recoveries.js";
import { demoRows, printDemoTable } from "./demo-table.js";

export interface DemoOptions {
  readonly home: string;
  readonly rounds: number;
  readonly stay: boolean;
  readonly signal: AbortSignal;
  readonly output: Output;
}
export interface DemoReport {
  readonly allExact: boolean;
}

const programs = resolve(dirname(fileURLToPath(import.meta.url)), "../..");
const serverProgram = join(programs, "server/cli/main.js");
const agentProgram = join(programs, "agent/cli/main.js");
const checkout = resolve(programs, "..");

export async function runDemo(options: DemoOptions): Promise<DemoReport> {
  const began = Date.now();
  const folders = await prepareDemoHome(options.home);
  const data = await findData(resolve(process.env["STEMMA_DATA"] ?? join(checkout, "../shared/data")));
  const plan = planDemo(data, options.rounds);
  const watch = new FleetWatch(plan, options.output);
  for (const note of plan.dataNotes) watch.say(note);
  const processes = new ChildProcesses(folders.logs);
  try {
    const server = await startServer(processes, folders, watch);
    const operations = await connectToServer(folders);
    try {
      const stop = new AbortController();
      const following = watch.follow(operations, AbortSignal.any([stop.signal, options.signal]));
      await trainBases(operations, plan, watch, options.signal);
      const agents = await startFleet(operations, processes, folders, plan, watch);
      await Promise.race([
        watch.allDone(
          agents,
          { restart: (vehicle) => startAgent(processes, folders, vehicle) },
          options.signal,
        ),
        failed(server, "The server", folders),
        watch.agentFailed(agents, folders.logs),
      ]);
      watch.say("all rounds are done; the server recovers every kind of version and compares bits");
      const proofs = await proveRecoveries(operations, plan, folders, watch);
      stop.abort();
      await following;
      const rows = await demoRows(operations, plan, watch, proofs);
      printDemoTable(rows, proofs, options.output);
      if (watch.cut)
        options.output.info(
          `kill -9 in mid-transfer: ${formatBytes(watch.cut.resumedBytes)} of ${formatBytes(watch.cut.totalBytes)} were there when it went on, and were not sent again.`,
        );
      const allExact = proofs.every((proof) => proof.exact);
      await suggest(operations, options, Date.now() - began, folders);
      if (options.stay && allExact) await untilStopped(options.signal, options.output, folders);
      return { allExact };
    } finally {
      await operations.close();
    }
  } finally {
    watch.end();
    await processes.stopAll();
  }
}

async function startServer(
  processes: ChildProcesses,
  folders: DemoFolders,
  watch: FleetWatch,
): Promise<StartedProcess> {
  const server = processes.start("server", [
    serverProgram,
    "server",
    "--home",
    folders.server,
    "--fleet",
    demoFleet,
    "--mqtt-port",
    "0",
    "--http-port",
    "0",
  ]);
  const line = await server.waitFor((text) => (text.startsWith("stemma server:") ? text : undefined));
  watch.say(`${line.replace("stemma server:", "server").replace(/, home .*/, "")}, process ${server.pid}`);
  return server;
}

async function connectToServer(folders: DemoFolders): Promise<ServerOperations> {
  const running = await findLocalServer(folders.server);
  if (!running)
    throw new StemmaError(
      "SERVER_UNREACHABLE",
      `The demo's server does not answer. Its log is ${folders.logs}/server.log.`,
    );
  return connectOperations({ socketPath: running.socketPath });
}

/** Trains what is not there from an earlier run. */
async function trainBases(
  operations: ServerOperations,
  plan: DemoPlan,
  watch: FleetWatch,
  signal: AbortSignal,
): Promise<void> {
  const known = new Set((await operations.models({ fleet: demoFleet })).map((model) => model.name));
  const registered = new Set(
    (await operations.datasets({ fleet: demoFleet })).map((dataset) => dataset.name),
  );
  for (const base of plan.bases) {
    if (known.has(base.name)) {
      watch.say(`base model ${base.name} is there from an earlier run`);
      continue;
    }
    await trainBase(operations, base, registered, watch, signal);
  }
}

async function trainBase(
  operations: ServerOperations,
  base: DemoBase,
  registered: ReadonlySet<string>,
  watch: FleetWatch,
  signal: AbortSignal,
): Promise<void> {
  if (!registered.has(base.dataName))
    await operations.addDataset({
      fleet: demoFleet,
      name: base.dataName,
      kind: base.dataset.reader,
      location: base.dataset.location ?? "",
      parameters: base.dataset.parameters,
    });
  watch.say(`the server trains the base model ${base.name} (${base.task}) …`);
  const { summary, result } = await operations.train(
    {
      fleet: demoFleet,
      recipe: base.recipe,
      data: base.dataName,
      name: base.name,
      parameters: base.parameters,
      seed: base.seed,
    },
    {
      onProgress: (progress) => {
        watch.progress(`${base.name}: ${progress.line}`);
      },
      signal,
    },
  );
  watch.say(
    `${summary.name}:${summary.version} trained in ${formatDuration(result.durationMs)}: ${result.metric.name} ${result.metric.after.toFixed(1)} ${result.metric.unit} on held-out data, ${formatBytes(summary.tensorBytes)}`,
  );
}

async function startFleet(
  operations: ServerOperations,
  processes: ChildProcesses,
  folders: DemoFolders,
  plan: DemoPlan,
  watch: FleetWatch,
): Promise<Map<string, StartedProcess>> {
  const enrolled = new Set((await operations.devices({ fleet: demoFleet })).map((device) => device.device));
  const agents = new Map<string, StartedProcess>();
  for (const { versionId, name, version } of await operations.models({ fleet: demoFleet }))
    watch.named(versionId, `${name}:${version}`);
  for (const vehicle of plan.vehicles) {
    const home = join(folders.agents, vehicle.device);
    await mkdir(home, { recursive: true });
    if (!enrolled.has(vehicle.device)) {
      const initial = Object.fromEntries(vehicle.lines.map((line) => [line.line, line.base]));
      const enrolment = await operations.enroll({
        fleet: demoFleet,
        device: vehicle.device,
        lines: vehicle.lines.map((line) => line.line),
        profile: "generic",
        initial,
      });
      await writeFile(join(home, "enrolment.json"), JSON.stringify(enrolment, null, 2), { mode: 0o600 });
    } else await followServer(operations, home);
    await watch.countEarlierRounds(operations, vehicle);
    await writeFile(join(home, "profile.json"), JSON.stringify(await demoProfile(vehicle), null, 2));
    await writeFile(
      join(home, "agent.json"),
      JSON.stringify(
        agentConfigOf(vehicle, plan.rounds + watch.roundsBefore(vehicle.device), join(home, "profile.json")),
        null,
        2,
      ),
    );
    agents.set(vehicle.device, startAgent(processes, folders, vehicle));
  }
  return agents;
}

/** A server of a later run has other ports; the enrolment keeps key and token. */
async function followServer(operations: ServerOperations, home: string): Promise<void> {
  const { mqttUrl, httpUrl } = await operations.health();
  const path = join(home, "enrolment.json");
  const enrolment = JSON.parse(await readFile(path, "utf8")) as Record<string, unknown>;
  await writeFile(path, JSON.stringify({ ...enrolment, mqtt: [mqttUrl], http: httpUrl }, null, 2), {
    mode: 0o600,
  });
}

/**
 * The generic board with small blocks, and for one vehicle a thin link whose transfer can be cut in the
 * middle. All code what they send: the loopback alone would not make it pay.
 */
async function demoProfile(vehicle: DemoVehicle): Promise<Record<string, unknown>> {
  const generic = JSON.parse(
    await readFile(join(checkout, "firmware-profiles/generic.json"), "utf8"),
  ) as Record<string, Record<string, unknown>>;
  delete generic["$schema"];
  const link = vehicle.thinLink
    ? { blockBytes: 8_192, window: 2, bytesPerSecond: 24_576 }
    : { blockBytes: 65_536 };
  return {
    ...generic,
    name: vehicle.thinLink ? "demo-thin-link" : "demo",
    link: { ...generic["link"], coding: "always", ...link },
    training: { ...generic["training"], dutyHours: null, everyHours: null, afterSamples: null },
  };
}

function startAgent(processes: ChildProcesses, folders: DemoFolders, vehicle: DemoVehicle): StartedProcess {
  const home = join(folders.agents, vehicle.device);
  return processes.start(vehicle.device, [
    agentProgram,
    "run",
    "--home",
    home,
    "--enrolment",
    join(home, "enrolment.json"),
  ]);
}

async function failed(process: StartedProcess, what: string, { logs }: DemoFolders): Promise<never> {
  const how = await process.ended;
  throw new StemmaError(
    "CHECK_FAILED",
    `${what} ended (${how}) while it was needed. What it said is in ${logs}/${process.name}.log.`,
  );
}

async function suggest(
  operations: ServerOperations,
  { output, home }: DemoOptions,
  tookMs: number,
  folders: DemoFolders,
): Promise<void> {
  const models = await operations.models({ fleet: demoFleet });
  const newest = models.at(-1);
  const flags = `--home ${folders.server.replace(`${process.cwd()}/`, "")} --fleet ${demoFleet}`;
  const fine = models.filter((model) => model.record.bases.length > 0);
  const first = fine[0] ?? newest;
  if (newest === undefined || first === undefined) return;
  const name = (model: typeof newest): string => `${model.name}:${model.version}`;
  output.info(
    [
      "",
      `done in ${formatDuration(tookMs)}; everything lies in ${home}. Look further:`,
      "",
      `  ./stemma model log ${name(newest)} ${flags}`,
      `  ./stemma model recover ${name(first)} --file recovered.safetensors ${flags}`,
      `  ./stemma model recover ${flags} --at ${new Date().toISOString().replace(/\.\d+Z/, "Z")}`,
      "",
      "A model file of your own (a home of its own, no server needed):",
      "",
      "  ./stemma model import FILE.safetensors --name my-model",
      "  ./stemma model recover my-model --file back.safetensors",
      "",
    ].join("\n"),
  );
}

async function untilStopped(signal: AbortSignal, output: Output, folders: DemoFolders): Promise<void> {
  output.info(`the server stays up; its agents too. Watch ${folders.logs}. Ctrl-C ends all of it.`);
  await new Promise<void>((resolveStop) => {
    if (signal.aborted) resolveStop();
    else
      signal.addEventListener(
        "abort",
        () => {
          resolveStop();
        },
        { once: true },
      );
  });
}
