/**
 * A real server in this process, a base model in it, and agents of one device with a training that takes no
 * time.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { startAgent, type AgentHandle, type AgentPorts } from "../../agent/main.js";
import type { ServerOptions } from "../../server/configuration/config.js";
import { startServer } from "../../server/main.js";
import { silentLog } from "../../shared/adapters/node-ports.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import type { Enrolment } from "../../shared/trust/enrolment.js";
import { fakeTraining, testProfile, tinyImport, WaitableLog } from "./agent-bench.js";
import { startTestServer, testFleet, type TestServer } from "./test-server.js";

export interface Yard {
  readonly server: TestServer;
  /** Of its broker. */ readonly port: number;
  readonly enrolment: Enrolment;
  readonly home: string;
  agent(options?: AgentOverrides): Promise<Running>;
}
export interface AgentOverrides {
  readonly profile?: Readonly<Record<string, unknown>>;
  readonly lines?: Readonly<Record<string, unknown>>;
  readonly ports?: Partial<AgentPorts>;
  readonly log?: WaitableLog;
  /** Another home than the device's own. */ readonly home?: string;
  readonly enrolment?: Enrolment;
}
export interface Running {
  readonly handle: AgentHandle;
  readonly log: WaitableLog;
}

export const line = "cam";

export interface YardOptions {
  /** Of the model: its size. */ readonly units?: number;
  readonly names?: readonly string[];
  readonly server?: Partial<ServerOptions>;
}

/** A server with a base model assigned to one device; everything ends with the test. */
export async function yard(
  t: TestContext,
  { units = 3, names = [line], server: options = {} }: YardOptions = {},
): Promise<Yard> {
  const server = await startTestServer(options);
  const home = await mkdtemp(join(tmpdir(), "stemma-agent-"));
  const running: AgentHandle[] = [];
  t.after(async () => {
    for (const handle of running) await handle.close();
    await server.end();
    await rm(home, { recursive: true, force: true });
  });
  await importBase(server, "base", "1", units);
  const enrolment = await server.enroll("v1", names);
  await server.handle.operations.assign({
    fleet: testFleet,
    device: "v1",
    line: names[0] ?? line,
    model: "base",
  });
  const agent = async ({
    profile = {},
    lines = Object.fromEntries(
      names.map((name) => [name, { recipe: "fake", dataset: { reader: "images-generated" } }]),
    ),
    ports = {},
    log = new WaitableLog(),
    home: place = home,
    enrolment: given = enrolment,
  }: AgentOverrides = {}): Promise<Running> => {
    await writeFile(join(place, "enrolment.json"), JSON.stringify(server.moved(given)));
    const handle = await startAgent(
      {
        home: place,
        config: {
          format: 1,
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
      { train: fakeTraining().train, ...ports },
    );
    running.push(handle);
    return { handle, log };
  };
  return { server, port: Number(new URL(server.handle.mqttUrl).port), enrolment, home, agent };
}

/** Starts a closed server on the port it had: agents know no other. */
export async function startAgain(server: TestServer, mqttPort: number): Promise<void> {
  server.handle = await startServer(
    { home: server.home, fleets: [testFleet], mqttPort, httpPort: 0 },
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

/** Lets everything that is ready run. */
export const turn = (): Promise<void> =>
  new Promise((resolve) => {
    setImmediate(resolve);
  });
/** Fits events of one version. */
export const of =
  (versionId: Hash) =>
  (fields: Readonly<Record<string, unknown>>): boolean =>
    fields["version"] === versionId;
