/** A server with devices whose agents run in this process, for tests of rollouts. */
import { mkdir, mkdtemp, readlink, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { type TestContext } from "node:test";
import { startAgent, type AgentHandle } from "../../../../../agent/main.js";
import type { RolloutDetailAnswer } from "../../../../../server/interface/api/rollouts/rollout-definitions.js";
import type { ServerOperations } from "../../../../../server/interface/api/server-operations.js";
import type { Enrolment } from "../../../../../shared/trust/enrolment.js";
import { importBase, testLine as line } from "../../../../helpers/agent-test-environment.js";
import { testProfile, WaitableLog } from "../../../../helpers/agent-fixtures.js";
import { pollUntil } from "../../../../helpers/poll-until.js";
import { startTestServer, testFleet as fleet, type TestServer } from "../../../../helpers/test-server.js";

export interface Device {
  readonly name: string;
  readonly home: string;
  readonly log: WaitableLog;
  readonly enrolment: Enrolment;
  agent: AgentHandle;
  /** The version that the device's software reads. */
  runs(): Promise<string>;
}

export class Fleet {
  readonly devices: Device[] = [];
  constructor(
    readonly server: TestServer,
    private readonly folder: string,
  ) {}

  get operations(): ServerOperations {
    return this.server.handle.operations;
  }

  /** A device that runs a model. */
  async add(name: string, model = "base", more: object = {}): Promise<Device> {
    const home = join(this.folder, name);
    const enrolment = await this.server.enroll(name, [line], { [line]: model });
    const log = new WaitableLog();
    const device = {
      name,
      home,
      log,
      enrolment,
      agent: await this.start(home, enrolment, log, more),
      runs: async () => basename(await readlink(join(home, "current", line))),
    };
    this.devices.push(device);
    const { versionId } = await this.operations.model({ fleet, model });
    await log.until("activated", 1, { line, versionId });
    return device;
  }

  async start(home: string, enrolment: Enrolment, log: WaitableLog, more: object = {}): Promise<AgentHandle> {
    await mkdir(home, { recursive: true });
    await writeFile(join(home, "enrolment.json"), JSON.stringify(this.server.withCurrentAddress(enrolment)));
    const settings = { recipe: "fine-tune", parameters: { epochs: 3 }, schedule: { rounds: 0 } };
    const { conditions, ...ofLine } = more as { conditions?: object };
    const lines = { [line]: { ...settings, ...ofLine } };
    const all = { format: 1, lines, ...(conditions === undefined ? {} : { conditions }) };
    return startAgent({ home, config: all, profile: { ...testProfile() }, log });
  }

  /** Resolves with the rollout's state once it is as asked for. */
  until(rollout: string, isReached: (state: RolloutDetailAnswer) => boolean): Promise<RolloutDetailAnswer> {
    return pollUntil(`the rollout ${rollout}: ${String(isReached)}`, async () => {
      const state = await this.operations.rollout({ fleet, rollout });
      return isReached(state) ? state : undefined;
    });
  }
}

export async function startFleet(t: TestContext, names: readonly string[]): Promise<Fleet> {
  const server = await startTestServer();
  const folder = await mkdtemp(join(tmpdir(), "stemma-rollout-"));
  const fleet = new Fleet(server, folder);
  t.after(async () => {
    for (const { agent } of fleet.devices) await agent.close();
    await server.remove();
    await rm(folder, { recursive: true, force: true });
  });
  await importBase(server, "base", "1", 8);
  for (const name of names) await fleet.add(name);
  return fleet;
}

/** Samples whose outputs follow their inputs, or follow them the other way round. */
export async function takeSamples({ agent }: Device, { isReversed = false } = {}): Promise<void> {
  const samples = Array.from({ length: 200 }, (_, i) => {
    const value = ((i * 37) % 100) / 50 - 0.99;
    const label = isReversed ? [-3 * value, -2] : [value, 1 - value];
    return { values: [value, 1 - value, i % 3, 0.5], label };
  });
  await agent.takeSamples(line, samples);
}

/** The device trains; its model is stored on the server. @returns its version id */
export async function train({ operations }: Fleet, { agent, log }: Device): Promise<string> {
  const { versionId } = await agent.train(line);
  await log.until("activated", 1, (fields) => fields["versionId"] === versionId);
  await pollUntil(
    "the trained model is stored",
    async () => (await operations.model({ fleet, model: versionId })).state !== "recorded",
  );
  return versionId;
}

export const verdicts = ({ members }: RolloutDetailAnswer): Readonly<Record<string, string | null>> =>
  Object.fromEntries(members.map(({ device, verdict }) => [device, verdict]));
