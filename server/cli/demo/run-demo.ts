/**
 * `npm start`: a server and a small fleet of agents as separate processes, from the first training to
 * exact recovery. Uses the same commands and operations that people use.
 */
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { StemmaError } from "../../../shared/errors.js";
import { formatBytes, formatDuration, type Output } from "../../../shared/cli/output.js";
import { loadEnrolment, sealEnrolment, type Enrolment } from "../../../shared/trust/enrolment.js";
import { writeDurably } from "../../../shared/files/durable-write.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { connectOperations } from "../../interface/http/client.js";
import { findLocalServer } from "../../interface/http/local-server.js";
import type { ServerOperations } from "../../interface/api/server-operations.js";
import { ChildProcesses, type StartedProcess } from "./child-processes.js";
import { findData, hashOfData, prepareDemoHome, type DemoFolders } from "./demo-home.js";
import { agentConfigOf, demoFleet, planDemo, type DemoPlan, type DemoVehicle } from "./demo-plan.js";
import { DemoOwner } from "./demo-owner.js";
import { FleetWatch } from "./fleet-watch.js";
import { proveRecoveries, type Proof } from "./prove-recoveries.js";
import { awaitsReturn, demonstrateRollouts, undoOpenRollouts, untilNoReturn } from "./demo-rollout.js";
import { replayNewest } from "./replay-newest.js";
import { demoRows, printDemoTable } from "./demo-table.js";
import { trainBases } from "./train-models.js";

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

const programs = resolve(dirname(fileURLToPath(import.meta.url)), "../../..");
const serverProgram = join(programs, "server/cli/main.js");
const agentProgram = join(programs, "agent/cli/main.js");
const checkout = resolve(programs, "..");

/** What the demo's steps share once its server runs. */
interface Demo {
  readonly operations: ServerOperations;
  readonly processes: ChildProcesses;
  readonly folders: DemoFolders;
  readonly plan: DemoPlan;
  readonly watch: FleetWatch;
  readonly options: DemoOptions;
}

/** @throws CHECK_FAILED, TIMED_OUT, INTERRUPTED; HOME_LOCKED where another demo runs on the home */
export async function runDemo(options: DemoOptions): Promise<DemoReport> {
  const startedAtMs = Date.now();
  const data = await findData(resolve(process.env["STEMMA_DATA"] ?? join(checkout, "../shared/data")));
  const plan = planDemo(data, options.rounds);
  const dataHash = await hashOfData(plan.bases.map(({ dataset }) => dataset));
  const folders = await prepareDemoHome(options.home, dataHash);
  const watch = new FleetWatch(plan, options.output);
  for (const note of plan.dataNotes) watch.printLine(note);
  if (folders.home !== options.home)
    watch.printLine(`${options.home} has a demo on other data, which stays; this one is in ${folders.home}`);
  const processes = new ChildProcesses(folders.logs);
  const run = async (): Promise<DemoReport> => {
    const server = await startServer(processes, folders, plan, watch);
    const operations = await connectToServer(folders);
    try {
      const demo = { operations, processes, folders, plan, watch, options };
      const proofs = await runRounds(demo, server);
      await suggestNextSteps(demo, Date.now() - startedAtMs);
      return { allExact: proofs.every((proof) => proof.exact) };
    } finally {
      await operations.close();
    }
  };
  try {
    const report = await untilInterrupted(run(), { ...options, home: folders.home });
    if (options.stay && report.allExact) await untilStopped(options.signal, options.output, folders);
    return report;
  } finally {
    watch.end();
    await processes.stopAll();
  }
}

/**
 * The work's result, or INTERRUPTED as soon as the signal aborts, wherever the work is then: it fails when its
 * processes are stopped.
 */
async function untilInterrupted<T>(
  work: Promise<T>,
  { signal, home }: Pick<DemoOptions, "signal" | "home">,
): Promise<T> {
  work.catch(() => undefined);
  return new Promise((resolveWork, reject) => {
    const interrupt = (): void => {
      reject(
        new StemmaError(
          "INTERRUPTED",
          `The demo was interrupted; its server and agents are stopped. All models, samples and unfinished trainings stay in ${home}. Run it again to go on from there, or remove the folder with \`npm start -- --clean\` (\`stemma demo --clean --home ${home}\`).`,
        ),
      );
    };
    if (signal.aborted) interrupt();
    signal.addEventListener("abort", interrupt, { once: true });
    work.then(resolveWork, reject).finally(() => {
      signal.removeEventListener("abort", interrupt);
    });
  });
}

/** Everything from the first training to the final table. */
async function runRounds(demo: Demo, server: StartedProcess): Promise<readonly Proof[]> {
  const { operations, processes, folders, watch, options } = demo;
  const stop = new AbortController();
  const following = watch.follow(operations, AbortSignal.any([stop.signal, options.signal]));
  // Where the stream of events breaks off, the run below fails; until then nobody waits for it.
  following.catch(() => undefined);
  await undoOpenRollouts(demo);
  await trainBases(demo, demo.plan);
  const fleetOwner = await signBases(demo);
  const agents = await startFleet(demo);
  const restart = (vehicle: DemoVehicle): StartedProcess => startAgent(processes, folders, vehicle);
  const rolledOut = await Promise.race([
    watch
      .allDone(agents, { restart }, options.signal)
      .then(async () => demonstrateRollouts({ ...demo, fleetOwner })),
    serverFailed(server, folders),
    streamFailed(following, server, folders),
    watch.agentFailed(agents, folders.logs),
  ]);
  watch.printLine("the server recovers every kind of version and compares the bits");
  const proofs = await proveRecoveries(operations, folders, watch, options.signal);
  const replayed = await replayNewest(operations, options.signal);
  stop.abort();
  await following;
  printDemoTable(await demoRows(operations, watch, proofs), proofs, options.output);
  if (watch.cut)
    options.output.info(
      `kill -9 during a transfer: ${formatBytes(watch.cut.resumedBytes)} of ${formatBytes(watch.cut.totalBytes)} ` +
        "had arrived and were not\nsent again.",
    );
  if (replayed !== undefined) options.output.info(replayed);
  options.output.info(rolledOut);
  return proofs;
}

/** Before the vehicles are enrolled: they pin the owner's root then, and demand what it signed. */
async function signBases({ operations, folders, plan, watch }: Demo): Promise<DemoOwner> {
  const fleetOwner = await DemoOwner.open(operations, folders.owner);
  const signed: string[] = [];
  for (const { name } of plan.bases) signed.push(await fleetOwner.release(`${name}:1`));
  watch.printLine(`the owner signed ${signed.join(" and ")} with a key that the server lacks`);
  return fleetOwner;
}

async function startServer(
  processes: ChildProcesses,
  folders: DemoFolders,
  plan: DemoPlan,
  watch: FleetWatch,
): Promise<StartedProcess> {
  // A demo of an earlier release gave its vehicles tokens; startFleet gives them certificates.
  const enrolments = await Promise.all(plan.vehicles.map((vehicle) => enrolmentOf(folders, vehicle)));
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
    ...(enrolments.some((enrolment) => enrolment?.token !== undefined) ? ["--device-tokens"] : []),
  ]);
  const line = await server.waitFor((text) => (text.startsWith("stemma server:") ? text : undefined));
  watch.printLine(
    `${line.replace("stemma server:", "server").replace(/, home .*/, "")}, process ${server.pid}`,
  );
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

async function startFleet(demo: Demo): Promise<Map<string, StartedProcess>> {
  const { operations, processes, folders, plan, watch } = demo;
  const enrolled = new Set((await operations.devices({ fleet: demoFleet })).map((device) => device.device));
  const agents = new Map<string, StartedProcess>();
  for (const { versionId, name, version } of await operations.models({ fleet: demoFleet }))
    watch.setName(versionId, `${name}:${version}`);
  for (const vehicle of plan.vehicles) {
    const home = join(folders.agents, vehicle.device);
    await mkdir(home, { recursive: true });
    // A demo that was interrupted between the enrolment and its file enrols the vehicle again.
    const enrolment = await enrolmentOf(folders, vehicle);
    if (enrolled.has(vehicle.device) && enrolment?.identity !== undefined)
      await updateAddresses(operations, home, enrolment);
    else await enrol(demo, vehicle, home);
    await watch.countEarlierRounds(operations, vehicle);
    await writeFile(join(home, "profile.json"), JSON.stringify(await demoProfile(vehicle), null, 2));
    const earlier = watch.roundsBefore(vehicle.device);
    if (await awaitsReturn(demo, vehicle.device)) await returnVehicle(demo, vehicle, earlier);
    await writeAgentConfig(home, vehicle, plan.rounds + earlier);
    agents.set(vehicle.device, startAgent(processes, folders, vehicle));
  }
  return agents;
}

async function writeAgentConfig(home: string, vehicle: DemoVehicle, rounds: number): Promise<void> {
  const config = agentConfigOf(vehicle, rounds, join(home, "profile.json"));
  await writeFile(join(home, "agent.json"), JSON.stringify(config, null, 2));
}

/** Runs an agent until its vehicle has left the version of an interrupted rollout: the rounds do not train from it. */
async function returnVehicle(demo: Demo, vehicle: DemoVehicle, rounds: number): Promise<void> {
  const { processes, folders } = demo;
  await writeAgentConfig(join(folders.agents, vehicle.device), vehicle, rounds);
  const agent = startAgent(processes, folders, vehicle);
  const failed = agent.ended.then((status) => {
    throw new StemmaError(
      "CHECK_FAILED",
      `The agent of ${agent.name} ended (${status}) while it was needed. Its log is ${folders.logs}/${agent.name}.log.`,
    );
  });
  await Promise.race([untilNoReturn(demo, vehicle.device), failed]);
  failed.catch(() => undefined);
  agent.kill("SIGTERM");
  await agent.ended;
}

/** The vehicle's enrolment of an earlier run; undefined where there is none that can be read. */
async function enrolmentOf({ agents }: DemoFolders, { device }: DemoVehicle): Promise<Enrolment | undefined> {
  const path = join(agents, device, "enrolment.json");
  return loadEnrolment(nodeFiles(), path).catch(() => undefined);
}

/** As a person does it: invites the vehicle, whose agent then makes its keys and gets its certificate. */
async function enrol(
  { operations, processes, folders }: Demo,
  vehicle: DemoVehicle,
  home: string,
): Promise<void> {
  const invitation = await operations.invite({
    fleet: demoFleet,
    device: vehicle.device,
    lines: vehicle.lines.map((line) => line.line),
    profile: "generic",
    initial: Object.fromEntries(vehicle.lines.map((line) => [line.line, line.base])),
  });
  const file = join(home, "invitation.json");
  await writeSecret(file, invitation);
  const { device } = vehicle;
  const agent = processes.start(device, [agentProgram, "enroll", file, "--home", home]);
  const status = await agent.ended;
  if (status !== 0)
    throw new StemmaError(
      "CHECK_FAILED",
      `${device} could not be enrolled (${status}). Its log is ${folders.logs}/${device}.log.`,
    );
  await nodeFiles().remove(file);
}

/** The server of a later run has other ports; the enrolment keeps its keys and certificate. */
async function updateAddresses(
  operations: ServerOperations,
  home: string,
  enrolment: Enrolment,
): Promise<void> {
  const { mqttUrl, httpUrl } = await operations.health();
  const moved = sealEnrolment({ ...enrolment, mqtt: [mqttUrl], http: httpUrl });
  await writeSecret(join(home, "enrolment.json"), moved);
}

/** Writes the file in one step, readable by its owner alone: an interrupted demo leaves the old one or the new. */
async function writeSecret(path: string, content: object): Promise<void> {
  await writeDurably(nodeFiles(), path, new TextEncoder().encode(JSON.stringify(content, null, 2)));
}

/**
 * The generic profile with small blocks, and for one vehicle with a link so slow that its transfer can be
 * interrupted. All vehicles encode what they send, which the profile would not choose over a loopback link.
 */
async function demoProfile(vehicle: DemoVehicle): Promise<Record<string, unknown>> {
  const generic = JSON.parse(
    await readFile(join(checkout, "firmware-profiles/generic.json"), "utf8"),
  ) as Record<string, Record<string, unknown>>;
  delete generic["$schema"];
  const link = vehicle.hasSlowLink
    ? { blockBytes: 8_192, window: 2, bytesPerSecond: 24_576 }
    : { blockBytes: 65_536 };
  return {
    ...generic,
    name: vehicle.hasSlowLink ? "demo-slow-link" : "demo",
    link: { ...generic["link"], coding: "always", ...link },
    // The vehicle with the slow link may train on two threads, the others on one, to the same bits.
    training: {
      ...generic["training"],
      threads: vehicle.hasSlowLink ? 2 : 1,
      dutyHours: null,
      everyHours: null,
      afterSamples: null,
    },
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

/** Milliseconds in which a server that broke off the stream of events is seen to have ended. */
const endOfServerMs = 2000;

/** Rejects when the server ends. */
async function serverFailed(server: StartedProcess, { logs }: DemoFolders): Promise<never> {
  const status = await server.ended;
  throw new StemmaError(
    "CHECK_FAILED",
    `The server ended (${status}) while it was needed. Its log is ${logs}/${server.name}.log.`,
  );
}

/** Fails where the stream of events does: because the server ended, if that is why. Else it never settles. */
async function streamFailed(
  following: Promise<void>,
  server: StartedProcess,
  folders: DemoFolders,
): Promise<never> {
  try {
    await following;
  } catch (error) {
    await Promise.race([serverFailed(server, folders), delay(endOfServerMs)]);
    throw error;
  }
  return new Promise<never>(() => undefined);
}

/** Prints commands that look further into the demo's home. */
async function suggestNextSteps({ operations, folders, options }: Demo, tookMs: number): Promise<void> {
  const { output } = options;
  const models = await operations.models({ fleet: demoFleet });
  const newest = models.at(-1);
  const flags = `--home ${folders.server.replace(`${process.cwd()}/`, "")} --fleet ${demoFleet}`;
  const first = models.find((model) => model.record.bases.length > 0) ?? newest;
  if (newest === undefined || first === undefined) return;
  const name = (model: typeof newest): string => `${model.name}:${model.version}`;
  output.info(
    [
      "",
      `done in ${formatDuration(tookMs)}; everything is in ${folders.home}. Commands to look further:`,
      "",
      `  ./stemma model log ${name(newest)} ${flags}`,
      `  ./stemma replay run ${name(first)} ${flags}`,
      `  ./stemma rollout status ${flags}`,
      `  ./stemma model recover ${name(first)} --file recovered.safetensors ${flags}`,
      `  ./stemma model recover ${flags} --at ${new Date().toISOString().replace(/\.\d+Z/, "Z")}`,
      "",
      "With a model file of your own (in a home of its own, without a server):",
      "",
      "  ./stemma model import FILE.safetensors --name my-model",
      "  ./stemma model recover my-model --file back.safetensors",
      "",
    ].join("\n"),
  );
}

async function untilStopped(signal: AbortSignal, output: Output, folders: DemoFolders): Promise<void> {
  output.info(
    `The server and the agents keep running; their logs are in ${folders.logs}. Ctrl-C stops all of them.`,
  );
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
