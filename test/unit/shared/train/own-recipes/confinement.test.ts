/** What confines the code of a fleet's own recipe: an attack on it from inside, and what this machine can do. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { promisify } from "node:util";
import {
  confinedScript,
  recipeCommand,
  whyUnconfined,
} from "../../../../../shared/train/own-recipes/confinement.js";

/**
 * What hostile code tries that got out of the interpreter, past Node's permission model too. Each line that it prints
 * is something that it could do.
 */
const hostile = (secret: string, port: number, processId: number): string => `
const fs = require("fs"), net = require("net"), dgram = require("dgram"), child = require("child_process");
const could = (what) => console.log(what);
const tries = (what, act) => { try { act(); could(what); } catch {} };
tries("read a file of the host", () => fs.readFileSync(${JSON.stringify(secret)}));
for (const path of ["/etc/passwd", "/proc/1/environ", "/proc/self/maps", "/sys/kernel", "/dev/sda", "/root", "/home"])
  tries("read " + path, () => { try { fs.readdirSync(path); } catch { fs.readFileSync(path); } });
for (const folder of ["/", "/tmp", "/var/tmp", "/dev/shm", "/stemma", "/usr", "/lib", "."])
  tries("write to " + folder, () => fs.writeFileSync(folder + "/written", "x"));
tries("change the engine", () => fs.appendFileSync("/stemma/engine.mjs", "x"));
tries("make a device", () => child.execFileSync("/bin/mknod", ["/stemma/d", "c", "1", "3"]));
tries("start a program", () => child.execFileSync("/bin/sh", ["-c", "true"]));
tries("start Node again with the host's files", () => child.execFileSync("/usr/bin/env", ["true"]));
tries("signal a process of the host", () => process.kill(${processId}, 0));
tries("become root", () => process.setuid(0));
if (process.env.SECRET !== undefined || Object.keys(process.env).some((name) => name !== "PWD")) could("environment");
try { const kept = []; for (let gib = 0; gib < 10 * 16; gib++) kept.push(Buffer.alloc(64 * 2 ** 20, 1)); could("take 10 GB"); } catch {}
const udp = dgram.createSocket("udp4");
udp.on("error", () => {}).send("x", 53, "192.0.2.1", (error) => { if (!error) could("send a datagram"); udp.close(); });
const socket = net.connect(${port}, "127.0.0.1", () => { could("reach a server of the host"); socket.end(); }).on("error", () => {});
`;

describe("confinement", () => {
  it("leaves hostile code nothing of the host: files, network, processes, environment, memory", async (test) => {
    if ((await whyUnconfined()) !== undefined)
      return test.skip("this machine cannot confine with namespaces");
    const folder = await mkdtemp(join(tmpdir(), "stemma-hostile-"));
    const server = createServer((socket) => socket.end()).listen(0, "127.0.0.1");
    try {
      await once(server, "listening");
      const secret = join(folder, "secret");
      await writeFile(secret, "of the host");
      const { port } = server.address() as AddressInfo;
      const [program, ...parameters] = await confinedScript(hostile(secret, port, process.pid));
      const env = { ...process.env, SECRET: "of the host" };
      const { stdout } = await promisify(execFile)(program, parameters, { env, cwd: folder });
      assert.equal(stdout, "");
      assert.deepEqual(await readdir(folder), ["secret"]);
    } finally {
      server.close();
      await rm(folder, { recursive: true });
    }
  });

  it("ends hostile code that never ends, by its processor time", async (test) => {
    if ((await whyUnconfined()) !== undefined)
      return test.skip("this machine cannot confine with namespaces");
    const [program, ...parameters] = await confinedScript("for (;;);", 1);
    const ended = promisify(execFile)(program, parameters, { timeout: 120_000 });
    // Not by this test's own time-out. What unshare makes of the signal differs between its releases.
    await assert.rejects(ended, ({ killed }: { killed: boolean }) => !killed);
  });

  it("leaves a process neither network nor files, or says why not", async (test) => {
    const why = await whyUnconfined();
    if (why === undefined) return;
    // The attempt itself looks around and lists what is within reach.
    test.diagnostic(`not confined on this machine: ${why}`);
    assert.ok(why.length > 0);
    await assert.rejects(recipeCommand("namespaces"), { code: "CONFINEMENT_FAILED" });
  });
});
