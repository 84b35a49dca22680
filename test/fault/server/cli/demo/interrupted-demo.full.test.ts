/**
 * `npm start`, interrupted by Ctrl-C at random moments and started again: it ends well each time, and nothing that it
 * started outlives it. A run takes about a minute, so this test runs only with STEMMA_TEST_FULL=1, or with a count in
 * STEMMA_TEST_KILLS.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { testSeed } from "../../../../helpers/crash-states.js";
import { pollUntil } from "../../../../helpers/poll-until.js";
import { seededNumbers } from "../../../../helpers/manual-clock.js";

const launcher = fileURLToPath(new URL("../../../../../../launcher/start.mjs", import.meta.url));
const interrupts =
  process.env["STEMMA_TEST_FULL"] === "1" ? 10 : Number(process.env["STEMMA_TEST_KILLS"] ?? 0);

interface Ended {
  readonly status: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly output: string;
  readonly ms: number;
}

/** Runs the demo as a terminal does: Ctrl-C reaches every process of its group. */
async function runDemo(home: string, interruptAfterMs?: number): Promise<Ended> {
  const startedMs = performance.now();
  const child = spawn(process.execPath, [launcher, "--rounds", "1", "--home", home], {
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, STEMMA_DATA: "/absent" },
  });
  const group = -(child.pid as number);
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (part: string) => {
      output += part;
    });
  const ended = new Promise<Pick<Ended, "status" | "signal">>((resolve) => {
    // "close": after everything that has its output has ended.
    child.once("close", (status, signal) => {
      resolve({ status, signal });
    });
  });
  if (interruptAfterMs !== undefined) {
    await Promise.race([delay(interruptAfterMs), ended]);
    if (child.exitCode === null) process.kill(group, "SIGINT");
  }
  const end = await ended;
  await untilGone(group);
  return { ...end, output, ms: performance.now() - startedMs };
}

/** Resolves when a process group has no process left. */
async function untilGone(group: number): Promise<void> {
  await pollUntil("the end of all processes of the demo", () => {
    try {
      process.kill(group, 0);
      return false;
    } catch (error) {
      assert.equal((error as NodeJS.ErrnoException).code, "ESRCH");
      return true;
    }
  });
}

async function assertEndedWell({ status, output }: Ended, home: string, when: string): Promise<void> {
  if (status !== 0) {
    const log = await readFile(join(home, "logs", "server.log"), "utf8").catch(String);
    assert.fail(
      `${when}: status ${status}\n${output.slice(-4000)}\nThe server's log ends:\n${log.slice(-4000)}`,
    );
  }
  assert.match(output, /(\d+) of \1 recoveries are exact/, when);
}

it("npm start ends well after Ctrl-C at any moment", async (t) => {
  if (interrupts === 0) {
    t.skip("runs the demo twenty times; set STEMMA_TEST_FULL=1");
    return;
  }
  const folder = await mkdtemp(join(tmpdir(), "stemma-demo-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const undisturbed = await runDemo(join(folder, "0"));
  await assertEndedWell(undisturbed, join(folder, "0"), "undisturbed");
  const seed = testSeed();
  t.diagnostic(`STEMMA_TEST_SEED=${seed}, a run takes ${Math.round(undisturbed.ms)} ms`);
  const random = seededNumbers(seed);
  for (let number = 1; number <= interrupts; number++) {
    const home = join(folder, String(number));
    const afterMs = Math.round(random() * undisturbed.ms);
    const when = `interrupt ${number} after ${afterMs} ms, STEMMA_TEST_SEED=${seed}`;
    const cut = await runDemo(home, afterMs);
    // It may have ended before, or have had no chance yet to answer in its own words.
    if (cut.status !== 0 && cut.signal !== "SIGINT")
      assert.equal(cut.status, 130, `${when}\n${cut.output.slice(-4000)}`);
    await assertEndedWell(await runDemo(home), home, when);
    await rm(home, { recursive: true, force: true });
  }
});
