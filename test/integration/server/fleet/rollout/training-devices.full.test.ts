/**
 * Rollouts over devices that train all the time: each is measured between two trainings, and none is called worse.
 * Takes a minute and more: STEMMA_TEST_FULL=1.
 */
import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "node:test";
import { startAgent, type AgentHandle } from "../../../../../agent/main.js";
import { testLine as line } from "../../../../helpers/agent-test-environment.js";
import { WaitableLog } from "../../../../helpers/agent-fixtures.js";
import { pollUntil } from "../../../../helpers/poll-until.js";
import { startTestServer, testFleet as fleet, type TestServer } from "../../../../helpers/test-server.js";

const isFull = process.env["STEMMA_TEST_FULL"] === "1";
const vehicles = [1, 2, 3];
const rounds = 3;

async function train(server: TestServer, name: string, vehicle: number, base?: string): Promise<string> {
  const { operations } = server.handle;
  const data = `cells-of-${vehicle}`;
  await operations.addDataset({
    fleet,
    name: data,
    kind: "battery-simulated",
    location: "",
    parameters: { vehicle, cells: 3 },
  });
  const { summary } = await operations.train({
    fleet,
    recipe: "battery-soh",
    data,
    name,
    parameters: { units: 8, epochs: 5 },
    seed: "7",
    ...(base === undefined ? {} : { base }),
  });
  return summary.versionId;
}

async function addDevice(server: TestServer, folder: string, vehicle: number): Promise<AgentHandle> {
  const name = `van-${vehicle}`;
  const home = join(folder, name);
  await mkdir(home);
  const enrolment = await server.enroll(name, [line], { [line]: "base" });
  await writeFile(join(home, "enrolment.json"), JSON.stringify(enrolment));
  const dataset = { reader: "battery-simulated", parameters: { vehicle } };
  const lines = { [line]: { recipe: "battery-soh", dataset, schedule: { everySeconds: 1 } } };
  const log = new WaitableLog();
  const agent = await startAgent({ home, config: { format: 1, lines }, log });
  await log.until("activated", 2, { line });
  return agent;
}

it(
  "devices that train all the time are measured between two trainings",
  { skip: isFull ? false : "takes long; set STEMMA_TEST_FULL=1" },
  async (t) => {
    const server = await startTestServer();
    const folder = await mkdtemp(join(tmpdir(), "stemma-busy-"));
    const agents: AgentHandle[] = [];
    t.after(async () => {
      for (const agent of agents) await agent.close();
      await server.remove();
      await rm(folder, { recursive: true, force: true });
    });
    await train(server, "base", 0);
    for (const vehicle of vehicles) agents.push(await addDevice(server, folder, vehicle));
    const { operations } = server.handle;
    for (let round = 0; round < rounds; round++) {
      const model = await train(server, `update-${round}`, 90 + round, "base");
      const name = `round-${round}`;
      // How good the version is does not matter here.
      const policy = { waves: ["1", "rest"], margin: 1 };
      await operations.createRollout({ fleet, name, model, line, select: "all", policy, start: true });
      const state = await pollUntil(`the end of ${name}`, async () => {
        const now = await operations.rollout({ fleet, rollout: name });
        return now.phase === "running" ? undefined : now;
      });
      assert.equal(state.phase, "done", state.because);
      assert.equal(state.devices.switched, vehicles.length);
    }
  },
);
