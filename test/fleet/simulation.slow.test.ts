// `stemma fleet simulate`: a rehearsal on a server of its own, devices that join a server, and nothing left of either.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import type { SimulationSummary } from "../../server/cli/simulation/simulation.js";
import { exitStatus } from "../../shared/errors.js";
import { importStreamOf, syntheticModel } from "../../server/cli/simulation/synthetic-model.js";
import { runStemma } from "../helpers/run-stemma.js";
import { startTestServer, testFleet } from "../helpers/test-server.js";

const isFull = process.env["STEMMA_TEST_FULL"] === "1";
const program = fileURLToPath(new URL("../helpers/bundled-program.mjs", import.meta.url));
/** Names of the folders that a simulation left. */
const leftovers = async (pid: string): Promise<readonly string[]> =>
  (await readdir(tmpdir())).filter((name) => name.startsWith(`stemma-simulation-${pid}`));

it("rehearses a rollout without losing a report, and leaves nothing behind", async () => {
  const home = await mkdtemp(join(tmpdir(), "stemma-simulate-"));
  const options = isFull
    ? ["--devices", "200", "--links", "wifi=3,lte=6,3g=1", "--spread", "60s"]
    : ["--devices", "6", "--model-size", "400kB", "--links", "none", "--spread", "1s"];
  const { status, stdout, stderr } = await runStemma(
    ["fleet", "simulate", ...options, "--saves", "2", "-o", "json"],
    { home },
  );
  const summary = JSON.parse(stdout) as SimulationSummary;
  const devices = isFull ? 200 : 6;
  assert.equal(status, 0, stderr);
  const { recordedAfterMs, ...reports } = summary.reports;
  assert.ok(recordedAfterMs !== null && recordedAfterMs.median > 0);
  assert.ok(recordedAfterMs.p99 >= recordedAfterMs.median);
  assert.deepEqual(reports, {
    saved: 2 * devices,
    recorded: 2 * devices,
    stored: 2 * devices,
    released: 2 * devices,
    lost: 0,
    waiting: 0,
  });
  assert.equal(summary.rollout?.phase, "done");
  assert.equal(summary.rollout.devices["switched"], devices);
  assert.equal(summary.rollout.compared.bytesError, 0);
  assert.ok(summary.server.peakBytes === null || summary.server.peakBytes <= 512e6);
  assert.deepEqual(await readdir(home), [], "the home of this user is not touched");
  await rm(home, { recursive: true });
});

it("stops a rollout that is worse, and says so by its exit status", async () => {
  const home = await mkdtemp(join(tmpdir(), "stemma-simulate-"));
  const { status, stdout } = await runStemma(
    "fleet simulate --devices 4 --model-size 200kB --links none --spread 1s --saves 0 --worse 1 -o json".split(
      " ",
    ),
    { home },
  );
  const { rollout, reports } = JSON.parse(stdout) as SimulationSummary;
  assert.equal(status, 5);
  assert.equal(rollout?.phase, "paused");
  assert.equal(rollout.devices["worse"], 1);
  assert.equal(reports.saved, 0);
  await rm(home, { recursive: true });
});

/** A simulation over slow links, from the moment at which its devices connect. */
async function startSlowly() {
  const child = spawn(
    process.execPath,
    [program, "stemma", "fleet", "simulate", "--devices", "4", "--links", "edge", "--model-size", "4MB"],
    { stdio: ["ignore", "pipe", "pipe"] },
  );
  let said = "";
  await new Promise<void>((resolve) => {
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      said += text;
      if (said.includes("4 devices may connect")) resolve();
    });
  });
  const server = Number(/\(process (\d+)\)/.exec(said)?.[1]);
  const ended = new Promise<number | null>((resolve) => {
    child.once("close", resolve);
  });
  return { child, server, ended, said: () => said };
}

it("leaves nothing behind where it is interrupted", async () => {
  const { child, server, ended } = await startSlowly();
  child.kill("SIGINT");
  await ended;
  assert.deepEqual(await leftovers(`${child.pid}-`), []);
  assert.throws(() => process.kill(server, 0), { code: "ESRCH" });
});

it("says that its server ended, where it was killed", async () => {
  const { child, server, ended, said } = await startSlowly();
  process.kill(server, "SIGKILL");
  assert.equal(await ended, exitStatus.verification);
  assert.match(said(), /server ended before the simulation \(SIGKILL\)\. Its last words: /);
  assert.deepEqual(await leftovers(`${child.pid}-`), []);
});

it("joins a fleet of simulated devices on a server, touches no other one, and takes them out again", async () => {
  const server = await startTestServer({ fleets: [testFleet, "sim-test"] });
  try {
    const { operations } = server.handle;
    await server.enroll("van-1", ["model"]);
    const join = (fleet: string, ...more: readonly string[]): ReturnType<typeof runStemma> =>
      runStemma(["fleet", "simulate", "--fleet", fleet, "--links", "none", ...more], { home: server.home });
    const refused = await join(testFleet, "--join", "base", "--devices", "2");
    assert.equal(refused.status, 1);
    assert.match(refused.stderr, /NOT_ALLOWED/);
    assert.equal((await join(testFleet, "--remove")).status, 1);
    assert.deepEqual(
      (await operations.devices({ fleet: testFleet })).map(({ device, state }) => [device, state]),
      [["van-1", "enrolled"]],
    );
    await operations.import(importStreamOf(syntheticModel(50_000, 1)), { fleet: "sim-test", name: "base" });
    const run = await join(
      ...(["sim-test", "--join", "base", "--devices", "3", "--saves", "1"] as const),
      ...["--spread", "100ms", "--for", "5s", "-o", "json"],
    );
    const { reports, wasStopped } = JSON.parse(run.stdout) as SimulationSummary;
    assert.equal(wasStopped, true);
    assert.equal(reports.lost, 0);
    // How many are saved in that time depends on the machine; none of them is lost.
    assert.ok(reports.recorded <= reports.saved && reports.saved <= 3);
    assert.deepEqual(await operations.devices({ fleet: "sim-test" }), []);
    // What a killed simulation leaves.
    await operations.enroll({ fleet: "sim-test", device: "sim-0001", lines: ["model"] });
    assert.equal((await join("sim-test", "--remove")).status, 0);
    assert.deepEqual(await operations.devices({ fleet: "sim-test" }), []);
  } finally {
    await server.remove();
  }
});
