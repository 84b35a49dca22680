/** A watched program may put anything where it is to leave its lists, and is found when it was left running. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { silentLog, nodeClock, nodeRandom } from "../../../../shared/adapters/node-ports.js";
import { makeJobFolders } from "../../../../shared/programs/job-folder.js";
import { trainerKind } from "../../../../shared/programs/run-command.js";
import { defined } from "../../../../shared/defined.js";
import {
  folderToRunIn,
  isFolderToRunIn,
  runWatched,
  type WatchedRun,
  type Watching,
} from "../../../../shared/programs/watched-run.js";

const hasCompiler = ["cc", "gcc", "clang"].some((name) => spawnSync(name, ["--version"]).status === 0);
const skip = process.platform === "linux" && hasCompiler ? false : "no C compiler for Linux on this machine";
const ports = {
  clock: nodeClock(),
  log: silentLog(),
  signal: new AbortController().signal,
  takesLine: () => true,
};
const limits = { memoryLimitMb: 64, threads: 1, timeoutSeconds: 20, maxOutputBytes: 2 ** 24 };

/** Makes a folder whose name begins so, and runs a script of a shell below it. */
async function prepared(t: TestContext, name: string, randomness?: Watching["randomness"]) {
  const workFolder = await mkdtemp(join(tmpdir(), name));
  t.after(() => rm(workFolder, { recursive: true, force: true }));
  const folder = folderToRunIn(workFolder, true);
  const run = async (script: string): Promise<WatchedRun> => {
    const folders = await makeJobFolders(folder, nodeRandom(), []);
    const program = { exec: ["/bin/sh", "-c", script], environment: {} };
    const job = { line: "a", kind: trainerKind, program, workFolder, folders, limits };
    return await runWatched(job, { folder, listsLibraries: true, ...defined({ randomness }) }, ports);
  };
  return { workFolder, run };
}

test(
  "lists that a program replaced are not read, and its process is noted in its work folder",
  { skip },
  async (t) => {
    const { workFolder, run } = await prepared(t, "stemma-watched-");
    const [own] = (await run("true")).libraries ?? [];
    assert.ok(own !== undefined && own.libraries.length > 0);
    const place = '"$SRECORDER_LIBRARIES"';
    for (const script of [
      `mkfifo ${place}`,
      `ln -s /dev/zero ${place}`,
      `head -c 2000000 /dev/zero > ${place}`,
      `mkdir ${place}`,
    ])
      // Else the commands of the script make the list first.
      assert.equal((await run(`unset LD_PRELOAD; rm -f ${place}; ${script}`)).libraries, undefined, script);
    const { pid } = JSON.parse(await readFile(join(workFolder, "process.json"), "utf8")) as { pid: unknown };
    assert.equal(typeof pid, "number");
  },
);

test("the folder has as many bytes wherever the home is", () => {
  for (const home of ["/home/a/work", "/home/ä/work", "/home/\u{1f600}/w"]) {
    const folder = folderToRunIn(home, true);
    assert.equal(Buffer.byteLength(folder), 200);
    assert.ok(isFolderToRunIn(folder));
  }
  assert.ok(!isFolderToRunIn(folderToRunIn("/home/a", false)));
});

test(
  "in a path that the loader would divide nothing is listed, and nothing recorded",
  { skip },
  async (t) => {
    const { run } = await prepared(t, "stemma watched-");
    assert.equal((await run('test -z "$LD_PRELOAD"')).libraries, undefined);
    const recorded = await prepared(t, "stemma:watched-", { mode: "record" });
    await assert.rejects(recorded.run("true"), { code: "RECORDER_UNAVAILABLE", message: /a space, a colon/ });
  },
);
