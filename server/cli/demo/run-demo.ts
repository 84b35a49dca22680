/**
 * `npm start`: the script of a server and a small fleet, from the first training to exact recovery. Every step is a
 * command of the product, run as a person would run it.
 */
import { randomInt } from "node:crypto";
import { mkdir, readFile, readlink, stat, writeFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { StemmaError } from "../../../shared/errors.js";
import type { Output } from "../../../shared/cli/output.js";
import type { DatasetReference } from "../../../shared/train/training.js";
import { connectOperations } from "../../interface/http/client.js";
import { findLocalServer } from "../../interface/http/local-server.js";
import type { CallOutput } from "../../interface/api/server-operations.js";
import { ChildProcesses, type StartedProcess } from "./child-processes.js";
import { isOwnFile, pickVersions, type SavedModel } from "./compare-recovered.js";
import { clockOption, findData, hashOfData, prepareDemoHome, type DemoFolders } from "./demo-home.js";
import {
  agentConfigOf,
  demoFleet,
  planDemo,
  type DemoBase,
  type DemoPlan,
  type DemoVehicle,
} from "./demo-plan.js";
import { DemoScript, fromHere } from "./demo-script.js";
import { FleetRounds } from "./fleet-rounds.js";
import { releaseOnce, signReleases } from "./sign-releases.js";
import { summarise, type Exactness, type Proof } from "./summary.js";

export interface DemoOptions {
  readonly home: string;
  readonly rounds: number;
  readonly stay: boolean;
  /** The agent's executable; absent: agents are parts of this program. */
  readonly agent?: string | undefined;
  readonly signal: AbortSignal;
  readonly output: Output;
}
export interface DemoReport {
  readonly allExact: boolean;
}

const programs = resolve(dirname(fileURLToPath(import.meta.url)), "../../..");
const checkout = resolve(programs, "..");
/** Versions that are recovered besides the oldest and the newest of every line. */
const randomlyRecovered = 4;
/** The demo fails where a vehicle has not returned after this long. It takes seconds. */
const returnTimeoutMs = 120_000;

/** The state that all steps share. */
interface Demo {
  readonly script: DemoScript;
  readonly processes: ChildProcesses;
  readonly folders: DemoFolders;
  readonly plan: DemoPlan;
  readonly options: DemoOptions;
}
type Device = CallOutput<"device">;

/** @throws CHECK_FAILED, TIMED_OUT, INTERRUPTED; HOME_LOCKED where another demo runs on the home */
export async function runDemo(options: DemoOptions): Promise<DemoReport> {
  const startedAtMs = Date.now();
  const data = await findData(resolve(process.env["STEMMA_DATA"] ?? join(checkout, "../shared/data")));
  const plan = planDemo(data, options.rounds);
  const folders = await prepareDemoHome(
    options.home,
    await hashOfData(plan.bases.map(({ dataset }) => dataset)),
  );
  const processes = new ChildProcesses(folders.logs);
  const environment = { STEMMA_HOME: folders.server, STEMMA_FLEET: demoFleet, STEMMA_CONTEXT: "" };
  const { output, agent } = options;
  const script = new DemoScript({ processes, output, programs, agent, environment });
  const demo = { script, processes, folders, plan, options };
  try {
    const report = await untilInterrupted(runScript(demo, startedAtMs), demo);
    if (options.stay && report.allExact) await untilStopped(demo);
    return report;
  } finally {
    await processes.stopAll();
  }
}

/**
 * The work's result, or INTERRUPTED as soon as the signal aborts, wherever the work is then: it fails when its
 * processes are stopped.
 */
async function untilInterrupted<T>(work: Promise<T>, { options, folders: { home } }: Demo): Promise<T> {
  const { signal } = options;
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

/** The steps, in order. */
async function runScript(demo: Demo, startedAtMs: number): Promise<DemoReport> {
  const { script, folders, plan, options } = demo;
  for (const note of plan.dataNotes) script.say(note);
  if (folders.home !== options.home)
    script.say(`${options.home} has a demo on other data, which stays; this one is in ${folders.home}`);
  script.heading("A server with an embedded broker");
  script.say(`$ export STEMMA_HOME=${fromHere(folders.server)} STEMMA_FLEET=${demoFleet}`);
  const server = await startServer(demo);
  const work = async (): Promise<DemoReport> => {
    await undoOpenRollouts(demo);
    for (const base of plan.bases) await trainBase(demo, base);
    await signReleases(
      demo,
      plan.bases.map(({ name }) => `${name}:1`),
    );
    const rounds = await runFleet(demo);
    await Promise.race([updateFleet(demo), rounds.failed]);
    const exact = await recoverModels(demo);
    await proveOne(demo);
    await summarise(demo, await modelsOf(demo), { rounds, exact, tookMs: Date.now() - startedAtMs });
    return { allExact: exact.wrong === 0 };
  };
  return Promise.race([work(), serverFailed(server, folders)]);
}

async function startServer({ script, folders }: Demo): Promise<StartedProcess> {
  const ports = ["--mqtt-port", "0", "--http-port", "0"];
  const server = script.start("server", ["server", ...ports, ...(await clockOption(folders, Date.now()))]);
  const line = await server.waitFor((text) => (text.startsWith("stemma server:") ? text : undefined));
  script.say(`  ${line.replace(/, home .*/, "")} (process ${server.pid}, log in ${fromHere(folders.logs)})`);
  return server;
}

/** Rejects when the server ends. */
async function serverFailed(server: StartedProcess, { logs }: DemoFolders): Promise<never> {
  const status = await server.ended;
  throw new StemmaError(
    "CHECK_FAILED",
    `The server ended (${status}) while it was needed. Its log is ${logs}/${server.name}.log.`,
  );
}

/** Ends what an interrupted demo left open, and returns the vehicles that had switched. */
async function undoOpenRollouts({ script }: Demo): Promise<void> {
  const rollouts = (await script.ask<readonly { name: string; phase: string }[]>("rollout", "status")) ?? [];
  for (const { name, phase } of rollouts)
    if (phase !== "undone" && phase !== "aborted")
      await script.run(["rollout", "undo", name, "--because", "its demo was interrupted"]);
}

const words = (values: Readonly<Record<string, unknown>>, option: string): readonly string[] =>
  Object.entries(values).flatMap(([key, value]) => [option, `${key}=${String(value)}`]);

async function registerData({ script }: Demo, name: string, dataset: DatasetReference): Promise<void> {
  const known = (await script.ask<readonly { name: string }[]>("data", "list")) ?? [];
  if (known.some((one) => one.name === name)) return;
  const set = words(dataset.parameters, "--set");
  await script.run(["data", "add", name, dataset.location ?? "-", "--kind", dataset.reader, ...set]);
}

async function modelsOf({ script }: Demo): Promise<readonly SavedModel[]> {
  return (await script.ask<readonly SavedModel[]>("model", "list", "--all")) ?? [];
}

async function trainBase(demo: Demo, base: DemoBase): Promise<void> {
  const { script } = demo;
  const { name, recipe, dataName, dataset, parameters, seed, task } = base;
  script.heading(`The base model of the ${task}`);
  if ((await modelsOf(demo)).some((model) => model.name === name)) {
    script.say(`  ${name} was trained in an earlier run`);
    return;
  }
  await registerData(demo, dataName, dataset);
  const set = words(parameters, "--set");
  const options = ["--recipe", recipe, "--data", dataName, "--name", name, "--seed", seed, ...set];
  await script.run(["model", "train", ...options]);
}

/** Enrols the vehicles, starts their agents, and follows them until every line has done its rounds. */
async function runFleet(demo: Demo): Promise<FleetRounds> {
  const { script, folders, plan, options } = demo;
  script.heading("Three vehicles make their own keys, and train on what they see");
  for (const vehicle of plan.vehicles) await prepareVehicle(demo, vehicle);
  const running = await findLocalServer(folders.server);
  if (running === undefined)
    throw new StemmaError(
      "SERVER_UNREACHABLE",
      `The demo's server does not answer. Its log is ${folders.logs}/server.log.`,
    );
  const operations = connectOperations({ socketPath: running.socketPath });
  const stop = new AbortController();
  const rounds = new FleetRounds({
    plan,
    logs: folders.logs,
    say: (text) => {
      script.say(text);
    },
    start: (device) => startAgent(demo, device),
  });
  try {
    const following = rounds.follow(operations.events(AbortSignal.any([stop.signal, options.signal])));
    following.catch(() => undefined);
    for (const { device } of plan.vehicles) rounds.start(device);
    await following;
  } finally {
    stop.abort();
    await operations.close();
  }
  return rounds;
}

const homeOf = ({ agents }: DemoFolders, device: string): string => join(agents, device);

const startAgent = ({ script, folders }: Demo, device: string): StartedProcess =>
  script.start(device, ["agent", "run", "--home", fromHere(homeOf(folders, device))]);

/** Enrols a vehicle as a person does it: invites it, and its agent then makes its keys and gets its certificate. */
async function prepareVehicle(demo: Demo, vehicle: DemoVehicle): Promise<void> {
  const { script, folders, plan } = demo;
  const { device, lines } = vehicle;
  const home = homeOf(folders, device);
  await mkdir(home, { recursive: true });
  const enrolment = fromHere(join(home, "enrolment.json"));
  const known = await script.ask<Device>("device", "show", device);
  // A demo that was interrupted between the invitation and the enrolment enrols the vehicle again.
  if (known !== undefined && (await stat(enrolment).catch(() => undefined)) !== undefined)
    // The server of a later run has other ports.
    await script.run(["device", "enroll", device, "--readdress", enrolment], { lines: 1 });
  else {
    const file = fromHere(join(home, "invitation.json"));
    const options = lines.flatMap(({ line, base }) => ["--line", line, "--initial", `${line}=${base}`]);
    await script.run(["device", "enroll", device, ...options, "--file", file], { lines: 1 });
    await script.run(["agent", "enroll", file, "--home", fromHere(home)], { lines: 1 });
  }
  await writeFile(join(home, "profile.json"), JSON.stringify(await demoProfile(vehicle), null, 2));
  const earlier = await roundsBefore(demo, vehicle);
  if (known !== undefined && awaitsReturn(known)) await returnVehicle(demo, vehicle, earlier);
  await writeAgentConfig(home, vehicle, plan.rounds + earlier);
}

async function writeAgentConfig(home: string, vehicle: DemoVehicle, rounds: number): Promise<void> {
  const config = agentConfigOf(vehicle, rounds, join(home, "profile.json"));
  await writeFile(join(home, "agent.json"), JSON.stringify(config, null, 2));
}

/** The most rounds that a line of the vehicle has done in earlier runs. */
async function roundsBefore(demo: Demo, { device, lines }: DemoVehicle): Promise<number> {
  const models = await modelsOf(demo);
  // Claims first: one that is proved meanwhile is counted twice, which only allows a round too many.
  const jobs = (await demo.script.ask<CallOutput<"replays">>("replay", "list")) ?? [];
  const counts = lines.map(({ line }) => {
    const claims = jobs.filter((job) => job.kind === "claim" && job.device === device && job.line === line);
    const versions = models.filter(({ record }) => record.device === device && record.line === line);
    return claims.length + versions.length;
  });
  return Math.max(0, ...counts);
}

/** True if a rollout was taken back, and the vehicle has not yet returned to what it ran before. */
function awaitsReturn({ assigned = {}, active }: Device): boolean {
  return Object.entries(assigned).some(([line, { versionId, atMs, rollout }]) => {
    const runs = active[line];
    return rollout !== undefined && runs?.versionId !== versionId && (runs?.serverAtMs ?? 0) < atMs;
  });
}

/** Runs an agent until its vehicle has left the version of an interrupted rollout: the rounds do not train from it. */
async function returnVehicle(demo: Demo, vehicle: DemoVehicle, rounds: number): Promise<void> {
  const { script, folders } = demo;
  const { device } = vehicle;
  await writeAgentConfig(homeOf(folders, device), vehicle, rounds);
  const agent = startAgent(demo, device);
  await until(demo, `${device} has not returned to what it ran before`, async () => {
    const now = await script.ask<Device>("device", "show", device);
    return now === undefined || !awaitsReturn(now);
  });
  agent.kill("SIGTERM");
  await agent.ended;
}

/** Waits until it is so. @throws TIMED_OUT; what the signal aborts with */
async function until(
  { options: { signal } }: Demo,
  else_: string,
  isSo: () => Promise<boolean>,
): Promise<void> {
  const deadlineMs = Date.now() + returnTimeoutMs;
  while (!(await isSo())) {
    if (Date.now() > deadlineMs)
      throw new StemmaError(
        "TIMED_OUT",
        `After ${returnTimeoutMs / 1000} s ${else_}. The log of every process is in the demo's logs folder. Run the demo again; it undoes the rollout first.`,
      );
    await pause(100, undefined, { signal }).catch(() => {
      signal.throwIfAborted();
    });
  }
}

/**
 * The generic profile with small blocks, and for one vehicle with a link so slow that its transfer can be
 * interrupted. All vehicles encode what they send, which the profile would not choose over a loopback link.
 */
async function demoProfile({ hasSlowLink }: DemoVehicle): Promise<Record<string, unknown>> {
  const text = await readFile(join(programs, "firmware-profiles/generic.json"), "utf8");
  const generic = JSON.parse(text) as Record<string, Record<string, unknown>>;
  delete generic["$schema"];
  const link = hasSlowLink
    ? { blockBytes: 8_192, window: 2, bytesPerSecond: 24_576 }
    : { blockBytes: 65_536 };
  return {
    ...generic,
    name: hasSlowLink ? "demo-slow-link" : "demo",
    link: { ...generic["link"], coding: "always", ...link },
    training: {
      ...generic["training"],
      // The vehicle with the slow link may train on two threads, the others on one, to the same bits.
      threads: hasSlowLink ? 2 : 1,
      dutyHours: null,
      everyHours: null,
      afterSamples: null,
    },
  };
}

/** Two updates of a line, on the laboratory's data and on a vehicle's: rolled out one by one, then taken back. */
async function updateFleet(demo: Demo): Promise<void> {
  const { script, plan } = demo;
  const owner = plan.vehicles.find(({ reportsProvenance }) => reportsProvenance);
  const line = owner?.lines[0];
  const base = plan.bases.find(({ name }) => name === line?.base);
  if (owner === undefined || line === undefined || base === undefined) return;
  const devices = plan.vehicles.filter(({ lines }) => lines.some((one) => one.line === line.line));
  const names = devices.map(({ device }) => device);
  script.heading("Two updates in waves: each vehicle measures first, and keeps what is better");
  const updates = [
    { name: "soh-from-laboratory", dataName: base.dataName, dataset: base.dataset },
    { name: "soh-from-vehicle", dataName: `${line.line}-of-${owner.device}`, dataset: line.dataset },
  ];
  for (const { name, dataName, dataset } of updates) {
    await registerData(demo, dataName, dataset);
    const of = [
      "--recipe",
      base.recipe,
      "--data",
      dataName,
      "--base",
      base.name,
      "--name",
      name,
      "--seed",
      "3",
    ];
    await script.run(["model", "train", ...of, ...words(line.parameters, "--set")]);
    const model = (await modelsOf(demo)).findLast((one) => one.name === name);
    if (model !== undefined) await rollOut(demo, `${name}:${model.version}`, line.line, names);
  }
}

/** Gives an update to the vehicles one by one, and takes it back. */
async function rollOut(demo: Demo, model: string, line: string, devices: readonly string[]): Promise<void> {
  const { script, folders } = demo;
  const runs = async (): Promise<readonly string[]> =>
    Promise.all(
      devices.map(async (device) => basename(await readlink(join(homeOf(folders, device), "current", line)))),
    );
  const before = await runs();
  await releaseOnce(demo, model);
  const rollout = model.replace(":", "-");
  const policy = ["--waves", devices.map(() => "1").join(","), "--margin", "0.02", "--start"];
  const to = ["--line", line, "--on", `line=${line}`];
  await script.run(["rollout", "create", rollout, `release:${model}`, ...to, ...policy], { lines: 2 });
  await script.run(["rollout", "watch", rollout], { statuses: [0, 5], lines: 6 });
  await until(demo, `the rollout ${rollout} has not ended`, async () => {
    const now = await script.ask<CallOutput<"rollout">>("rollout", "status", rollout);
    if (now === undefined) return false;
    const { passed, switched, missed = 0 } = now.devices;
    return passed === switched + missed;
  });
  await script.run(["rollout", "undo", rollout, "--because", "the demo shows the return"], { lines: 1 });
  await until(demo, "not every vehicle runs again what it ran before", async () =>
    (await runs()).every((version, at) => version === before[at]),
  );
  script.say("  every vehicle runs again what it ran before");
}

async function recoverModels(demo: Demo): Promise<Exactness> {
  const { script, folders } = demo;
  script.heading("Every kind of version back, bit for bit");
  const folder = join(folders.home, "recovered");
  await mkdir(folder, { recursive: true });
  const counts = { own: 0, root: 0, wrong: 0 };
  const proofs = new Map<string, Proof>();
  const picked = pickVersions(await modelsOf(demo), randomlyRecovered, (below) => randomInt(below));
  for (const [at, { name, version, versionId, record }] of picked.entries()) {
    const file = fromHere(join(folder, `${name}-${version}.safetensors`));
    const command = ["model", "recover", `${name}:${version}`, "--file", file, "--force"];
    // Status 4: the bytes are not those that were recorded, and nothing was written.
    const printed =
      at === 0 ? await script.run(command, { statuses: [0, 4] }) : await script.tell(command, [0, 4]);
    const isOwn = printed === "" ? false : await isOwnFile(file, homeOf(folders, record.device), versionId);
    if (isOwn === true) counts.own++;
    else if (isOwn === undefined) counts.root++;
    else counts.wrong++;
    if (isOwn === false) script.say(`  ${name}:${version} IS NOT EXACT`);
    const comparedWith = isOwn === undefined ? "the recorded root" : "the device's own file";
    proofs.set(versionId, { exact: isOwn !== false, comparedWith });
  }
  script.say(
    `  … and ${picked.length - 1} more: the oldest and the newest of every line, and ${randomlyRecovered} at random`,
  );
  return { ...counts, proofs };
}

/** One of the models whose parameters never left their vehicle, trained once more. */
async function proveOne(demo: Demo): Promise<void> {
  const models = await modelsOf(demo);
  const proved = models.filter(({ claim }) => claim?.isProved === true);
  const model = proved.at(-1) ?? models.find(({ record }) => record.device === "");
  if (model === undefined) return;
  demo.script.heading("A model made once more from its record alone");
  await demo.script.run(["replay", "run", `${model.name}:${model.version}`], { lines: 6 });
}

async function untilStopped({ options: { signal, output }, folders }: Demo): Promise<void> {
  output.info(
    `The server and the agents keep running; their logs are in ${folders.logs}. Ctrl-C stops all of them.`,
  );
  await new Promise<void>((resolveStop) => {
    if (signal.aborted) resolveStop();
    signal.addEventListener(
      "abort",
      () => {
        resolveStop();
      },
      { once: true },
    );
  });
}
