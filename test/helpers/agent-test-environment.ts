/**
 * A test environment for agents: a real server in this process with a base model, and agents of one device
 * whose training is fake and takes no time.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { startAgent, type AgentHandle, type AgentPorts } from "../../agent/main.js";
import type { ServerOptions } from "../../server/operations/configuration/config.js";
import { startServer } from "../../server/main.js";
import { silentLog } from "../../shared/adapters/node-ports.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { Enrolment } from "../../shared/trust/enrolment.js";
import { fakeTraining, testProfile, tinyImport, WaitableLog } from "./agent-fixtures.js";
import { startTestServer, testFleet, type TestServer } from "./test-server.js";

export interface AgentTestEnvironment {
  readonly server: TestServer;
  /** The port of the server's broker. */
  readonly mqttPort: number;
  readonly enrolment: Enrolment;
  readonly home: string;
  /** Starts an agent on the device's home unless `options.home` names another. */
  readonly startAgent: (options?: AgentTestOverrides) => Promise<RunningAgent>;
}
export interface AgentTestOverrides {
  readonly profile?: Readonly<Record<string, unknown>>;
  readonly lines?: Readonly<Record<string, unknown>>;
  readonly ports?: Partial<AgentPorts>;
  readonly log?: WaitableLog;
  /** A home other than the device's own. */
  readonly home?: string;
  readonly enrolment?: Enrolment;
  /** The member of agent.json. */
  readonly witnesses?: unknown;
}
export interface RunningAgent {
  readonly handle: AgentHandle;
  readonly log: WaitableLog;
}

export const testLine = "cam";

export interface AgentTestOptions {
  /** Width of the base model's hidden layer; sets the size of the model. */
  readonly units?: number;
  /** The training lines of the device. */
  readonly names?: readonly string[];
  readonly server?: Partial<ServerOptions>;
}

/** Starts a server with a base model assigned to one device. Everything is closed when the test ends. */
export async function startAgentTestEnvironment(
  t: TestContext,
  { units = 3, names = [testLine], server: serverOptions = {} }: AgentTestOptions = {},
): Promise<AgentTestEnvironment> {
  const server = await startTestServer(serverOptions);
  const home = await mkdtemp(join(tmpdir(), "stemma-agent-"));
  const running: AgentHandle[] = [];
  t.after(async () => {
    for (const handle of running) await handle.close();
    await server.remove();
    await rm(home, { recursive: true, force: true });
  });
  await importBase(server, "base", "1", units);
  const enrolment = await server.enroll("v1", names);
  await server.handle.operations.assign({
    fleet: testFleet,
    device: "v1",
    line: names[0] ?? testLine,
    model: "base",
  });
  const start = async ({
    profile = {},
    lines = Object.fromEntries(
      names.map((name) => [name, { recipe: "fake", dataset: { reader: "images-generated" } }]),
    ),
    ports = {},
    log = new WaitableLog(),
    witnesses,
    home: agentHome = home,
    enrolment: agentEnrolment = enrolment,
  }: AgentTestOverrides = {}): Promise<RunningAgent> => {
    await writeFile(
      join(agentHome, "enrolment.json"),
      JSON.stringify(server.withCurrentAddress(agentEnrolment)),
    );
    const handle = await startAgent(
      {
        home: agentHome,
        config: {
          format: 1,
          ...(witnesses === undefined ? {} : { witnesses }),
          lines: Object.fromEntries(
            Object.entries(lines).map(([name, settings]) => [
              name,
              { schedule: { everySeconds: null, afterSamples: null }, ...(settings as object) },
            ]),
          ),
        },
        profile: { ...testProfile(profile) },
        log,
      },
      { train: fakeTraining().train, checkRecipe: () => undefined, ...ports },
    );
    running.push(handle);
    return { handle, log };
  };
  return {
    server,
    mqttPort: Number(new URL(server.handle.mqttUrl).port),
    enrolment,
    home,
    startAgent: start,
  };
}

/** Starts a closed server again on the same port, because agents keep the address of their enrolment. */
export async function restartOnSamePort(server: TestServer, mqttPort: number): Promise<void> {
  server.handle = await startServer(
    { home: server.home, fleets: [testFleet], mqttPort, httpPort: 0, tls: "none" },
    silentLog(),
  );
}

export async function importBase(
  server: TestServer,
  name: string,
  seed: string,
  units: number,
): Promise<void> {
  const { bytes, architecture } = await tinyImport(seed, units);
  await server.handle.operations.import(
    {
      byteLength: bytes.length,
      chunks: (async function* () {
        yield bytes;
      })(),
    },
    { fleet: testFleet, name, architecture },
  );
}

/** Resolves after everything that is ready has run. */
export const nextEventLoopTurn = (): Promise<void> =>
  new Promise((resolve) => {
    setImmediate(resolve);
  });

/** The event "activated" by which the environment's device runs its base model for the first time. */
export const ofBase = { line: testLine, name: "base" } as const;

/** A predicate on log fields: true for events of one version. */
export const isOfVersion =
  (versionId: Hash) =>
  (fields: Readonly<Record<string, unknown>>): boolean =>
    fields["versionId"] === versionId;
