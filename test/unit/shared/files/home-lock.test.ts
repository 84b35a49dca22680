/**
 * One writer per home: a second process gets an error that names the holder, an ended process holds nothing,
 * and of many concurrent attempts one succeeds.
 */
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { link, mkdtemp, readdir, readFile, rm, stat, symlink, utimes, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, it } from "node:test";
import { StemmaError } from "../../../../shared/errors.js";
import { encodeClaim } from "../../../../shared/files/home-claim.js";
import { renewClaim } from "../../../../shared/files/home-lease.js";
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

/** In place of an earlier one, the claim of a process; returns its path. */
async function claim(home: string, change: Partial<LockHolder>): Promise<string> {
  const path = join(home, "lock", "0.claim");
  await rm(path, { force: true });
  const lock = await lockHome(home);
  await lock.release();
  await writeFile(path, encodeClaim({ ...lock.holder, socket: "", ...change }));
  return path;
}
const elsewhere = { boot: "another boot", machine: "another machine" };
const shared = { kind: "shared", name: "nfs" } as const;
/** Sets a claim's last renewal to so many seconds ago. */
async function age(path: string, seconds: number): Promise<void> {
  const at = Date.now() / 1000 - seconds;
  await utimes(path, at, at);
}
async function messageOf(call: Promise<unknown>): Promise<string> {
  const error: unknown = await call.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  assert.ok(isLocked(error), String(error));
  return (error as Error).message;
}

it("is not held by a reused process id, by a claim of an earlier boot, by a claim without bytes", async () => {
  const home = join(folder, "stale");
  await claim(home, { started: "1" });
  await (await lockHome(home)).release();
  await claim(home, { boot: "another boot", machine: "0".repeat(31) + "1" });
  assert.match(await messageOf(lockHome(home)), /another machine/);
  await claim(home, { boot: "another boot" });
  await (await lockHome(home)).release();
  for (const text of ["", "\0".repeat(300)]) {
    await writeFile(join(home, "lock", "0.claim"), text);
    await (await lockHome(home)).release();
  }
  assert.deepEqual(await readdir(join(home, "lock")), ["reserve"]);
});

it("is held where nothing proves the end of its process, and the message says what to do", async () => {
  const home = join(folder, "unknown");
  const path = await claim(home, { processNamespace: "another container with this host name" });
  assert.match(await messageOf(lockHome(home)), new RegExp(`another container .* remove ${path}`));
  await claim(home, { ...elsewhere, host: hostname() });
  assert.match(
    await messageOf(lockHome(home)),
    /on another machine \(host name .*whether it is of this machine/i,
  );
  await claim(home, { boot: "", machine: "" });
  assert.match(await messageOf(lockHome(home)), /a machine that is not known/);
  // A socket that is neither there nor refuses: here one that cannot be resolved.
  await claim(home, { socket: "loop.sock", processNamespace: "another" });
  await symlink("loop.sock", join(home, "lock", "loop.sock"));
  assert.match(await messageOf(lockHome(home)), /socket cannot be asked/);
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

/** Leaves a socket whose process has ended: the file stays when another name of it is removed. */
async function leaveSocket(path: string): Promise<void> {
  const server = createServer().listen(join(folder, "listening.sock"));
  await once(server, "listening");
  await link(join(folder, "listening.sock"), path);
  server.close();
  await once(server, "close");
}

it("is not held by a socket of another namespace that refuses; a file in a socket's place proves nothing", async () => {
  const home = join(folder, "silent");
  const change = { socket: "left.sock", processNamespace: "another container" };
  await claim(home, change);
  await leaveSocket(join(home, "lock", "left.sock"));
  await (await lockHome(home)).release();
  assert.deepEqual(await readdir(join(home, "lock")), ["reserve"]);
  await claim(home, change);
  await writeFile(join(home, "lock", "left.sock"), "");
  await assert.rejects(lockHome(home), isLocked);
});

it("is held by a damaged claim, and not by other files", async () => {
  const home = join(folder, "no claim");
  const path = await claim(home, {});
  const text = await readFile(path, "utf8");
  const damaged = [
    "{",
    "[]",
    "null",
    text.padEnd(64 * 1024 + 1),
    text.replace('"boot":"', '"boot":"0'),
    JSON.stringify({ ...(JSON.parse(text) as object), pid: 0 }),
  ];
  for (const content of damaged) {
    await writeFile(path, content);
    assert.match(await messageOf(lockHome(home)), /cannot be read/, content.slice(0, 40));
  }
  await rm(path);
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
  for (let at = 0; at < original.length; at += 29) {
    const bytes = Buffer.from(original);
    bytes[at] = (bytes[at] as number) ^ (1 << (at % 8));
    await writeFile(path, bytes);
    await assert.rejects(lockHome(home), isLocked, `byte ${at}`);
  }
  await writeFile(path, original);
  await lock.release();
  await (await lockHome(home)).release();
});

it("is taken over only after its lease and on request, and then its holder writes no more", async () => {
  const home = join(folder, "leased");
  const path = await claim(home, { ...elsewhere, renewed: true });
  const take = { fileSystem: shared, takeOver: true };
  assert.match(await messageOf(lockHome(home, take)), /machines may share this file system \(nfs\).*renewed/);
  await age(path, 45);
  await assert.rejects(lockHome(home, take), isLocked);
  await age(path, 61);
  assert.match(
    await messageOf(lockHome(home, { fileSystem: shared })),
    /last renewed \d+ s ago.*--take-over/,
  );
  const lock = await lockHome(home, take);
  assert.deepEqual(
    lock.takenOver.map(({ holder }) => holder?.boot),
    [elsewhere.boot],
  );
  await lock.assertHeld();
  const [own] = (await readdir(join(home, "lock"))).filter((name) => name.endsWith(".claim"));
  await rm(join(home, "lock", own as string));
  await assert.rejects(lock.assertHeld(), { code: "HOME_TAKEN" });
  assert.equal((await lock.lost).code, "HOME_TAKEN");
  await lock.release();
});

it("renews its claim, by the file system's clock, without a change of its content", async () => {
  const home = join(folder, "renewed");
  const lock = await lockHome(home, { fileSystem: shared });
  const [own] = (await readdir(join(home, "lock"))).filter((name) => name.endsWith(".claim"));
  const path = join(home, "lock", own as string);
  const before = await readFile(path, "utf8");
  await age(path, 50);
  await renewClaim(path);
  assert.ok(Date.now() - (await stat(path)).mtimeMs < 40_000);
  assert.equal(await readFile(path, "utf8"), before);
  await lock.release();
  await assert.rejects(renewClaim(path), { code: "ENOENT" });
  await lock.assertHeld();
});

it("reads the claims of the first version, which say nothing of machine, mount and renewal", async () => {
  const home = join(folder, "first version");
  const path = await claim(home, {});
  const { boot, pid, started } = JSON.parse(await readFile(path, "utf8")) as LockHolder;
  const earlier = (change: Partial<LockHolder>): Promise<void> =>
    writeFile(
      path,
      JSON.stringify({
        pid,
        started,
        host: hostname(),
        boot,
        processNamespace: "pid:[1]",
        command: "/usr/bin/stemma server",
        sinceMs: 1_760_000_000_000,
        socket: "",
        ...change,
      }),
    );
  await earlier({});
  assert.match(await messageOf(lockHome(home)), /usr.bin.stemma server.*2025-10-09/);
  await earlier({ boot: "another" });
  assert.match(await messageOf(lockHome(home, { takeOver: true })), /remove/, "it renews nothing");
  await leaveSocket(join(home, "lock", "a.sock"));
  await earlier({ boot: "another", socket: "a.sock" });
  assert.match(await messageOf(lockHome(home, { fileSystem: shared })), /machines may share/);
  await (await lockHome(home)).release();
  assert.deepEqual(await readdir(join(home, "lock")), ["reserve"]);
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
