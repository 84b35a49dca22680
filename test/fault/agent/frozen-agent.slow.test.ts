/**
 * An agent that is stopped in the middle of its work and goes on later (SIGSTOP, a suspended machine, a frozen
 * container): the server ends its session, the agent opens another one, and nothing is lost or taken for a clone's.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { importBase } from "../../helpers/agent-test-environment.js";
import { pollUntil } from "../../helpers/poll-until.js";
import { startTestServer, testFleet as fleet } from "../../helpers/test-server.js";

const program = fileURLToPath(new URL("./agent-child.js", import.meta.url));
const line = "cam";
const device = "v1";
const freezes = process.env["STEMMA_TEST_FULL"] === "1" ? 10 : 1;

it("is served again after it was frozen for longer than the server waits, and loses nothing", async (t) => {
  // Less than any keep-alive: a silent connection ends soon, also one of an agent that has nothing to say.
  const server = await startTestServer({ brokerLimits: { maxSilenceMs: 500 } });
  const home = await mkdtemp(join(tmpdir(), "stemma-frozen-"));
  const { operations } = server.handle;
  await importBase(server, "base", "1", 1500);
  await writeFile(join(home, "enrolment.json"), JSON.stringify(await server.enroll(device, [line])));
  await operations.assign({ fleet, device, line, model: "base" });
  const settings = join(home, "test-settings.json");
  const schedule = { everySeconds: 0.05, rounds: 3 * freezes + 2 };
  const lines = { [line]: { recipe: "fake", dataset: { reader: "images-generated" }, schedule } };
  const profile = { activation: "after-outbox", "link.blockBytes": 4096, "link.window": 2 };
  await writeFile(settings, JSON.stringify({ config: { format: 1, lines }, profile }));
  const child = spawn(process.execPath, [program, home, settings], { stdio: ["ignore", "pipe", "inherit"] });
  const ended = new Promise((resolve) => child.once("close", resolve));
  t.after(async () => {
    child.kill("SIGKILL");
    await ended;
    await server.remove();
    await rm(home, { recursive: true, force: true });
  });
  const trained = new Set<Hash>();
  createInterface({ input: child.stdout }).on("line", (text) => {
    const { event, versionId } = JSON.parse(text) as { event: string; versionId?: Hash };
    if (event === "trained" && versionId !== undefined) trained.add(versionId);
  });
  const shown = () => operations.device({ fleet, device });
  for (let freeze = 1; freeze <= freezes; freeze++) {
    await pollUntil("more is trained", () => trained.size >= 3 * freeze);
    await pollUntil("it is connected", async () => (await shown()).online);
    child.kill("SIGSTOP");
    await pollUntil("the server has ended its session", async () => !(await shown()).online);
    child.kill("SIGCONT");
  }
  await pollUntil("everything is trained", () => trained.size === schedule.rounds);
  const isReleased = async (): Promise<boolean> => {
    const found = await operations.models({ fleet, device });
    const released = new Set(
      found.flatMap(({ state, versionId }) => (state === "released" ? [versionId] : [])),
    );
    return [...trained].every((versionId) => released.has(versionId));
  };
  await pollUntil("everything is released", isReleased);
  await pollUntil("the server states what it runs", async () => {
    const { active } = await shown();
    return active[line]?.versionId === [...trained].at(-1);
  });
  const { state, session } = await shown();
  assert.equal(state, "enrolled", "it is not taken for a clone");
  assert.ok(session > freezes);
  assert.equal(
    (await operations.models({ fleet, device })).length,
    trained.size,
    "and nothing is counted twice",
  );
});
