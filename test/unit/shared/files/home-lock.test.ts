/**
 * One writer per home: a second process gets an error that names the holder, an ended process holds nothing,
 * and of many concurrent attempts one succeeds.
 */
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, it } from "node:test";
import { StemmaError } from "../../../../shared/errors.js";
import { lockHome, type LockHolder } from "../../../../shared/files/home-lock.js";

const folder = await mkdtemp(join(tmpdir(), "stemma-lock-"));
after(() => rm(folder, { recursive: true, force: true }));
const module = new URL("../../../../shared/files/home-lock.js", import.meta.url).href;
const isLocked = (error: unknown): boolean => error instanceof StemmaError && error.code === "HOME_LOCKED";

/** A child that tries to take the lock, prints "held" or the error's code, and stays until its input ends. */
function taker(home: string): ChildProcess {
  const script = `import { lockHome } from ${JSON.stringify(module)};
    try { await lockHome(${JSON.stringify(home)}); console.log("held"); } catch (error) { console.log(error.code); }
    process.stdin.resume();`;
  return spawn(process.execPath, ["--input-type=module", "-e", script], {
    stdio: ["pipe", "pipe", "inherit"],
  });
}
async function answerOf(child: ChildProcess): Promise<string> {
  for await (const line of createInterface({ input: child.stdout as NodeJS.ReadableStream })) return line;
  throw new Error("the child printed nothing");
}
async function end(child: ChildProcess, signal?: NodeJS.Signals): Promise<void> {
  const exited = once(child, "exit");
  if (signal === undefined) child.stdin?.end();
  else child.kill(signal);
  await exited;
}

for (const [name, home] of [
  ["a short path", join(folder, "short")],
  ["a path too long for a socket", join(folder, "x".repeat(120))],
] as const) {
  it(`names the holder, and forgets a holder that was killed: ${name}`, async () => {
    const child = taker(home);
    assert.equal(await answerOf(child), "held");
    await assert.rejects(
      () => lockHome(home),
      (error) => isLocked(error) && (error as Error).message.includes(String(child.pid)),
    );
    await end(child, "SIGKILL");
    const lock = await lockHome(home);
    await assert.rejects(() => lockHome(home), isLocked);
    await lock.release();
    await (await lockHome(home)).release();
    assert.deepEqual(await readdir(join(home, "lock")), ["reserve"], "no claim, no socket");
  });
}

it("gives the lock to one of many concurrent attempts", async () => {
  const home = join(folder, "many");
  const children = Array.from({ length: 5 }, () => taker(home));
  const answers = await Promise.all(children.map(answerOf));
  assert.ok(answers.filter((answer) => answer === "held").length <= 1, answers.join(" "));
  assert.ok(
    answers.every((answer) => answer === "held" || answer === "HOME_LOCKED"),
    answers.join(" "),
  );
  await Promise.all(children.map((child) => end(child)));
  await (await lockHome(home)).release();
});

/** In place of an earlier one, the claim of a process. */
async function claim(home: string, change: Partial<LockHolder>): Promise<void> {
  await rm(join(home, "lock", "0.claim"), { force: true });
  const lock = await lockHome(home);
  await lock.release();
  await mkdir(join(home, "lock"), { recursive: true });
  await writeFile(join(home, "lock", "0.claim"), JSON.stringify({ ...lock.holder, socket: "", ...change }));
}

it("is not held by a reused process id, by a claim of an earlier boot, by garbage", async () => {
  const home = join(folder, "stale");
  await claim(home, { started: "1" });
  await (await lockHome(home)).release();
  await claim(home, { boot: "another boot" });
  await (await lockHome(home)).release();
  await claim(home, { processNamespace: "another container of this host" });
  await (await lockHome(home)).release();
  for (const text of ["", "{", "[]", "null", '{"pid":-1}', '{"pid":1,"socket":"../../x"}']) {
    await writeFile(join(home, "lock", "1.claim"), text);
    await (await lockHome(home)).release();
  }
});

it("is held by a claim of another machine, and the message states what to remove", async () => {
  const home = join(folder, "foreign");
  await claim(home, { boot: "another boot", host: `not-${hostname()}` });
  await assert.rejects(
    () => lockHome(home),
    (error) => isLocked(error) && (error as Error).message.includes(join(home, "lock", "0.claim")),
  );
});

it("is held by a living process without a socket, and not by one that ended", async () => {
  const home = join(folder, "without socket");
  await claim(home, {});
  await assert.rejects(lockHome(home), isLocked, "this process lives");
  const ended = spawn(process.execPath, ["-e", ""]);
  await once(ended, "exit");
  await claim(home, { pid: ended.pid as number });
  await (await lockHome(home)).release();
});

it("is held where it cannot be told whether its process lives", async () => {
  const home = join(folder, "unknown");
  const elsewhere = `not-${hostname()}`;
  await claim(home, { processNamespace: "a container", host: elsewhere });
  await assert.rejects(lockHome(home), isLocked, "a container with a name of its own");
  await claim(home, { boot: "another boot", host: elsewhere });
  await assert.rejects(lockHome(home), isLocked, "another machine");
  // A socket that is neither there nor refuses: here one that cannot be resolved.
  await claim(home, { socket: "loop.sock" });
  await symlink("loop.sock", join(home, "lock", "loop.sock"));
  await assert.rejects(lockHome(home), isLocked, "a socket that cannot be asked");
});

it("is not held by a socket that is gone, or that nobody listens on, and both are removed", async () => {
  const home = join(folder, "silent");
  await claim(home, { socket: "gone.sock" });
  await (await lockHome(home)).release();
  await claim(home, { socket: "left.sock" });
  await writeFile(join(home, "lock", "left.sock"), "");
  await (await lockHome(home)).release();
  assert.deepEqual(await readdir(join(home, "lock")), ["reserve"]);
});

it("is not held by what is no claim: other files, and one that is too long or lacks a member", async () => {
  const home = join(folder, "no claim");
  await claim(home, {});
  const path = join(home, "lock", "0.claim");
  const text = await readFile(path, "utf8");
  await writeFile(path, text.padEnd(64 * 1024));
  await assert.rejects(lockHome(home), isLocked, "as long as it may be");
  await writeFile(path, text.padEnd(64 * 1024 + 1));
  await (await lockHome(home)).release();
  const holder = JSON.parse(text) as Record<string, unknown>;
  for (const change of [
    { started: undefined },
    { host: 1 },
    { boot: null },
    { processNamespace: undefined },
    { command: [] },
    { socket: undefined },
    { pid: 1.5 },
    { pid: 0 },
    { pid: "1" },
    { sinceMs: "1" },
    { socket: "a/b" },
  ]) {
    await writeFile(path, JSON.stringify({ ...holder, ...change }));
    await (await lockHome(home)).release();
  }
  await writeFile(join(home, "lock", "0.other"), text);
  await (await lockHome(home)).release();
  assert.deepEqual((await readdir(join(home, "lock"))).sort(), ["0.other", "reserve"]);
});

it("stays held while its process lives, whichever bit of its claim is flipped", async () => {
  const home = join(folder, "flipped");
  const lock = await lockHome(home);
  const [claim] = (await readdir(join(home, "lock"))).filter((name) => name.endsWith(".claim"));
  const path = join(home, "lock", claim as string);
  const original = await readFile(path);
  for (let at = 0; at < original.length; at += 13) {
    const bytes = Buffer.from(original);
    bytes[at] = (bytes[at] as number) ^ (1 << (at % 8));
    await writeFile(path, bytes);
    await assert.rejects(lockHome(home), isLocked, `byte ${at}`);
  }
  await writeFile(path, original);
  await lock.release();
  await (await lockHome(home)).release();
});

it("lets nobody else connect to its socket", async () => {
  const home = join(folder, "private");
  const lock = await lockHome(home);
  const names = await readdir(join(home, "lock"));
  const found = await Promise.all(names.map((name) => stat(join(home, "lock", name))));
  const sockets = found.filter((each) => each.isSocket());
  assert.equal(sockets.length, 1);
  for (const { mode } of sockets) assert.equal(mode & 0o777, 0o600);
  await lock.release();
});
