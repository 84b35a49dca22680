/** The process of an external trainer: its limits, and that nothing of its group outlives it. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it, type TestContext } from "node:test";
import { endLeftProcess, noteProcess } from "../../../../shared/programs/left-process.js";
import { runCommand, trainerKind } from "../../../../shared/programs/run-command.js";
import { isStemmaError, type ErrorCode } from "../../../../shared/errors.js";
import { pollUntil } from "../../../helpers/poll-until.js";
import { manualClock } from "../../../helpers/manual-clock.js";

interface Run {
  readonly script: string;
  /** Called with each line that the script prints. */
  readonly onLine?: (line: string, clock: ReturnType<typeof manualClock>, abort: AbortController) => void;
  readonly onStarted?: (pid: number) => void;
}

async function folderOf(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "stemma-run-"));
  t.after(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** Runs a shell script as a trainer, with 60 seconds and 10,000 bytes; the clock stands still by itself. */
async function runScript(t: TestContext, { script, onLine, onStarted }: Run): Promise<void> {
  const folder = await folderOf(t);
  const clock = manualClock();
  const abort = new AbortController();
  await runCommand(
    {
      kind: trainerKind,
      exec: ["/bin/sh", "-c", script],
      folder,
      environment: { PATH: "/usr/bin:/bin" },
      watched: { folders: [folder], maxBytes: 10_000 },
      timeoutSeconds: 60,
    },
    {
      clock,
      signal: abort.signal,
      onLine: (line) => onLine?.(line, clock, abort),
      onStarted: (pid) => {
        onStarted?.(pid);
        return Promise.resolve();
      },
    },
  );
}

const hasCode = (code: ErrorCode) => (error: unknown) => isStemmaError(error, code);

const isRunningIn = (stat: string): boolean =>
  stat !== "" && !["Z", "X"].includes(stat.slice(stat.lastIndexOf(")") + 2)[0] ?? "");

/** Whether a process runs; one that waits for its parent to notice its end does not. */
async function isRunning(pid: number): Promise<boolean> {
  return isRunningIn(await readFile(`/proc/${pid}/stat`, "utf8").catch(() => ""));
}

async function untilGone(pid: number): Promise<void> {
  await pollUntil(`the end of the process ${pid}`, async () => !(await isRunning(pid)));
}

describe("the process of an external trainer", () => {
  it("reads all that it wrote, though it ended before any of it was read", async (t) => {
    const lines: string[] = [];
    const run = runScript(t, {
      script: "seq 1 5000; echo the reason >&2; exit 3",
      onLine: (line) => lines.push(line),
      onStarted: (pid) => {
        while (isRunningIn(readFileSync(`/proc/${pid}/stat`, "utf8")));
      },
    });
    await assert.rejects(run, (error) => isStemmaError(error) && error.message.includes("the reason"));
    assert.deepEqual([lines.length, lines.at(-1)], [5000, "5000"]);
  });

  it("gets its folder and its environment, and nothing of the agent's", async (t) => {
    const lines: string[] = [];
    await runScript(t, { script: "pwd; env | sort", onLine: (line) => lines.push(line) });
    assert.match(lines[0] ?? "", /stemma-run-/);
    const names = lines.slice(1).map((line) => line.slice(0, line.indexOf("=")));
    assert.deepEqual(
      names.filter((name) => !["PATH", "PWD", "OLDPWD", "SHLVL", "_"].includes(name)),
      [],
    );
  });

  it("fails with a code where it crashes or cannot be started, and begins again where it was killed", async (t) => {
    await assert.rejects(runScript(t, { script: "echo no data >&2; exit 3" }), (error) => {
      assert.ok(isStemmaError(error, "TRAINER_FAILED"));
      assert.match(error.message, /no data/);
      return true;
    });
    await assert.rejects(runScript(t, { script: "kill -SEGV $$" }), hasCode("TRAINER_FAILED"));
    await assert.rejects(runScript(t, { script: "kill -KILL $$" }), hasCode("TRAINING_STOPPED"));
    const run = {
      kind: trainerKind,
      exec: ["/absent/program"],
      folder: "/",
      environment: {},
      watched: { folders: [], maxBytes: 1 },
      timeoutSeconds: 1,
    };
    const ports = {
      clock: manualClock(),
      signal: new AbortController().signal,
      onLine: () => undefined,
      onStarted: () => Promise.resolve(),
    };
    await assert.rejects(runCommand(run, ports), hasCode("TRAINER_FAILED"));
    await assert.rejects(runCommand({ ...run, folder: "/absent" }, ports), hasCode("TRAINER_FAILED"));
  });

  it("ends after its time, also where it ignores SIGTERM", async (t) => {
    const stubborn = "trap '' TERM; echo ready; while :; do sleep 0.1; done";
    for (const script of ["echo ready; exec sleep 60", stubborn])
      await assert.rejects(
        runScript(t, {
          script,
          onLine: (_, clock) => {
            clock.advance(60_000);
            clock.advance(2000);
          },
        }),
        hasCode("TRAINER_TIMED_OUT"),
      );
  });

  it("ends when it has written too much, while it runs or at its end", async (t) => {
    const script = "head -c 20000 /dev/zero > big; echo written; exec sleep 60";
    await assert.rejects(
      runScript(t, { script, onLine: (_, clock) => clock.advance(1000) }),
      hasCode("TRAINER_OUTPUT_TOO_LARGE"),
    );
    for (const last of ["head -c 20000 /dev/zero > big", "mkdir a; truncate -s 1T a/sparse"])
      await assert.rejects(runScript(t, { script: last }), hasCode("TRAINER_OUTPUT_TOO_LARGE"));
  });

  it("ends with all that it started, when it is stopped and when it is done", async (t) => {
    const left: number[] = [];
    await runScript(t, { script: "sleep 60 & echo $!", onLine: (line) => left.push(Number(line)) });
    await assert.rejects(
      runScript(t, {
        script: "sleep 60 & echo $!; wait",
        onLine: (line, _, abort) => {
          left.push(Number(line));
          abort.abort();
        },
      }),
      hasCode("TRAINING_STOPPED"),
    );
    assert.equal(left.length, 2);
    for (const pid of left) await untilGone(pid);
  });

  it("is ended after the agent that started it was killed, and no other process is", async (t) => {
    const folder = await folderOf(t);
    const child = spawn("/bin/sleep", ["60"], { detached: true });
    await once(child, "spawn");
    t.after(() => child.kill("SIGKILL"));
    const ended = once(child, "exit");
    await mkdir(join(folder, "later"));
    await writeFile(join(folder, "later", "process.json"), JSON.stringify({ pid: child.pid, started: "1" }));
    await endLeftProcess(join(folder, "later"));
    await endLeftProcess(join(folder, "absent"));
    assert.equal(await isRunning(child.pid as number), true);
    await noteProcess(folder, child.pid as number);
    await endLeftProcess(folder);
    assert.deepEqual(await ended, [null, "SIGKILL"]);
  });
});
