/**
 * Two processes on one home: in containers that share a host name and a volume with a long path, the second is
 * refused; where the lock was taken away, the first one's next save is refused, and nothing acknowledged is lost.
 */
import assert from "node:assert/strict";
import { execFile, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { openNodeHome } from "../../../../../server/storage/repository/node-home.js";
import { openRepository } from "../../../../../server/storage/repository/open-repository.js";
import { temporaryFolder } from "../../../../integration/server/storage/repository/harness.js";

const worker = fileURLToPath(new URL("writer-worker.js", import.meta.url));
/** A process namespace with a /proc of its own; as root of a user namespace, because that needs no rights. */
const container = "--user --map-root-user --mount-proc --pid --fork --kill-child".split(" ");

interface Answer {
  readonly open?: boolean;
  readonly saved?: string;
  readonly refused?: string;
  readonly cause?: string | null;
  readonly message?: string;
}

class Writer {
  readonly #child: ChildProcess;
  readonly #lines: AsyncIterator<string>;

  constructor(home: string, isInContainer = false) {
    const command = [process.execPath, worker, home];
    const [program, ...parameters] = isInContainer ? ["unshare", ...container, "--", ...command] : command;
    this.#child = spawn(program as string, parameters, { stdio: ["pipe", "pipe", "inherit"] });
    this.#lines = createInterface({ input: this.#child.stdout as NodeJS.ReadableStream })[
      Symbol.asyncIterator
    ]();
  }

  async answer(): Promise<Answer> {
    const next = await this.#lines.next();
    if (next.done === true) throw new Error("the writer ended");
    return JSON.parse(next.value) as Answer;
  }

  async save(name: string): Promise<Answer> {
    this.#child.stdin?.write(`${name}\n`);
    return await this.answer();
  }

  async end(signal?: NodeJS.Signals): Promise<void> {
    const exited = this.#child.exitCode === null ? once(this.#child, "close") : undefined;
    if (signal === undefined) this.#child.stdin?.end();
    else this.#child.kill(signal);
    await exited;
  }
}

async function modelsOf(path: string): Promise<readonly string[]> {
  const home = await openNodeHome(path);
  const repository = await openRepository(home, "fleet-a");
  const names = repository.versions().map(({ name }) => name);
  await repository.close();
  await home.close();
  return names.sort();
}

async function whyNoContainers(): Promise<string | undefined> {
  return await promisify(execFile)("unshare", [...container, "--", "/bin/true"]).then(
    () => undefined,
    (error: unknown) => String(error),
  );
}

it("refuses a second container on a home with a long path, and lets it in when the first was killed", async (context) => {
  const why = await whyNoContainers();
  if (why !== undefined) {
    context.skip(`this machine has no process namespaces for this user: ${why}`);
    return;
  }
  const home = join(await temporaryFolder(context), "d".repeat(100), "home");
  const first = new Writer(home, true);
  assert.deepEqual(await first.answer(), { open: true });
  assert.deepEqual(await first.save("a"), { saved: "a" });
  const second = new Writer(home, true);
  const { refused, message } = await second.answer();
  assert.equal(refused, "HOME_LOCKED");
  assert.match(message ?? "", /in use by process \d+ .* another container or process namespace/);
  await second.end();
  const here = new Writer(home);
  assert.equal((await here.answer()).refused, "HOME_LOCKED");
  await here.end();
  assert.deepEqual(await first.save("b"), { saved: "b" });
  await first.end("SIGKILL");
  const third = new Writer(home, true);
  assert.deepEqual(await third.answer(), { open: true });
  assert.deepEqual(await third.save("c"), { saved: "c" });
  await third.end();
  assert.deepEqual(await modelsOf(home), ["a", "b", "c"]);
});

it("acknowledges nothing after another process has the home, whose facts are kept", async (context) => {
  const home = join(await temporaryFolder(context), "home");
  const first = new Writer(home);
  assert.deepEqual(await first.answer(), { open: true });
  assert.deepEqual(await first.save("a"), { saved: "a" });
  for (const name of await readdir(join(home, "lock")))
    if (/\.(?:claim|sock)$/.test(name)) await rm(join(home, "lock", name));
  const second = new Writer(home);
  assert.deepEqual(await second.answer(), { open: true });
  assert.deepEqual(await second.save("b"), { saved: "b" });
  const lost = await first.save("lost");
  assert.deepEqual([lost.refused, lost.cause], ["JOURNAL_STOPPED", "HOME_TAKEN"]);
  assert.match(lost.message ?? "", /claim of this process on .* is gone/);
  await first.end();
  assert.deepEqual(await second.save("c"), { saved: "c" });
  await second.end();
  assert.deepEqual(await modelsOf(home), ["a", "b", "c"]);
});
