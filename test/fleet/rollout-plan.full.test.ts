/**
 * What rollouts to agents behind links of 0.5 to 8 Mbit/s take, beside what was planned. Takes a minute and more:
 * STEMMA_TEST_FULL=1.
 */
import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "node:test";
import { startAgent } from "../../agent/main.js";
import { sealEnrolment } from "../../shared/trust/enrolment.js";
import { importBase, testLine as line } from "../helpers/agent-test-environment.js";
import { testProfile, WaitableLog } from "../helpers/agent-fixtures.js";
import { pollUntil } from "../helpers/poll-until.js";
import { startTestServer, testFleet as fleet, type TestServer } from "../helpers/test-server.js";
import { startThrottledLink } from "../helpers/throttled-link.js";

const skip = process.env["STEMMA_TEST_FULL"] === "1" ? false : "starts six agents; set STEMMA_TEST_FULL=1";
const bitsPerSecond = [0.5e6, 1e6, 2e6, 3e6, 4e6, 8e6];
/** Models of 0.8 to 1.2 MB. */
const versions = { first: 40_000, second: 48_000, third: 60_000, fourth: 44_000 };

/** Returns what ends it. */
async function addDevice(server: TestServer, folder: string, rate: number): Promise<() => Promise<void>> {
  const name = `v${rate}`;
  const home = join(folder, name);
  await mkdir(home);
  const enrolment = await server.enroll(name, [line], {});
  const link = await startThrottledLink(Number(new URL(server.handle.mqttUrl).port), rate);
  const mqtt = [`mqtt://127.0.0.1:${link.port}`];
  await writeFile(join(home, "enrolment.json"), JSON.stringify(sealEnrolment({ ...enrolment, mqtt })));
  const lines = { [line]: { recipe: "fine-tune", parameters: {}, schedule: { rounds: 0 } } };
  const agent = await startAgent({
    home,
    config: { format: 1, lines },
    profile: testProfile(),
    log: new WaitableLog(),
  });
  return async () => {
    await agent.close();
    await link.close();
  };
}

it("plans bytes and time of rollouts", { skip }, async (t) => {
  const server = await startTestServer();
  const folder = await mkdtemp(join(tmpdir(), "stemma-plan-"));
  const ends: (() => Promise<void>)[] = [];
  t.after(async () => {
    for (const end of ends) await end();
    await server.remove();
    await rm(folder, { recursive: true, force: true });
  });
  for (const [index, [name, units]] of Object.entries(versions).entries())
    await importBase(server, name, String(index), units);
  for (const rate of bitsPerSecond) ends.push(await addDevice(server, folder, rate));
  const { operations } = server.handle;
  for (const name of Object.keys(versions)) {
    const policy = { waves: ["rest"], unmeasured: "switch" as const };
    // The versions have other shapes, so that their sizes differ.
    const forced = { start: true, force: true };
    await operations.createRollout({ fleet, name, model: name, line, select: "all", policy, ...forced });
    await pollUntil(
      `the end of ${name}`,
      async () => (await operations.rollout({ fleet, rollout: name })).phase !== "running",
    );
    const { compared, bytesError, timeError } = await operations.rolloutReport({ fleet, rollout: name });
    t.diagnostic(`${name}: median error of the bytes ${bytesError}, of the time ${timeError}`);
    assert.equal(compared, bitsPerSecond.length);
    assert.ok(bytesError !== null && bytesError <= 0.02, String(bytesError));
    // Before the first rollout nothing was measured.
    assert.equal(timeError === null, name === "first");
  }
});
