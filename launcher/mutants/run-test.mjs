// Runs one test file in a process of its own, until its first failure.
import { spawn } from "node:child_process";
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** Processes of tests that run now. */
const running = new Set();

/** Ends all tests that run. */
export const endTests = () => running.forEach(endGroup);

const reporter = fileURLToPath(new URL("first-failure.mjs", import.meta.url));
/** MiB: what a mutant that never stops allocating may take. */
const heapMib = 1024;

/** The test's process and whatever it started. */
function endGroup(pid) {
  try {
    process.kill(-pid, "SIGKILL");
  } catch (error) {
    if (error.code !== "ESRCH") throw error;
  }
}

/**
 * @param workplace folder of the checkout's copy
 * @param test below its dist/
 * @returns `outcome`: passed, failed or hung; `passed`: how many tests passed; `ms`: how long it took
 */
export function runTest(workplace, test, { timeoutMs, seed }) {
  const temporary = join(workplace, "tmp");
  mkdirSync(temporary, { recursive: true });
  const began = Date.now();
  const options = [`--max-old-space-size=${heapMib}`, "--test-reporter", reporter];
  const child = spawn(process.execPath, [...options, join(workplace, "dist", test)], {
    cwd: workplace,
    detached: true,
    stdio: ["ignore", "pipe", "ignore"],
    env: { ...process.env, TMPDIR: temporary, STEMMA_TEST_SEED: String(seed) },
  });
  if (child.pid !== undefined) running.add(child.pid);
  return new Promise((resolve, reject) => {
    let [output, hung] = ["", false];
    child.stdout.on("data", (chunk) => {
      // What a test prints beside is of no interest; the reporter's line is the last one.
      output = `${output}${chunk}`.slice(-1000);
    });
    const timer = setTimeout(() => {
      hung = true;
      endGroup(child.pid);
    }, timeoutMs);
    child.on("error", reject);
    child.on("exit", () => endGroup(child.pid));
    child.on("close", (code) => {
      clearTimeout(timer);
      running.delete(child.pid);
      rmSync(temporary, { recursive: true, force: true });
      const outcome = hung ? "hung" : code === 0 ? "passed" : "failed";
      resolve({ outcome, passed: Number(/^passed (\d+)\s*$/m.exec(output)?.[1]), ms: Date.now() - began });
    });
  });
}
