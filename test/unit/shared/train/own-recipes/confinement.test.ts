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
import { namespacesFor, probeNamespaces } from "../../../../helpers/namespaces-probe.js";

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
    if (!(await namespacesFor(test))) return;
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
    if (!(await namespacesFor(test))) return;
    const [program, ...parameters] = await confinedScript("for (;;);", 1);
    const ended = promisify(execFile)(program, parameters, { timeout: 120_000 });
    // Not by this test's own time-out. What unshare makes of the signal differs between its releases.
    await assert.rejects(ended, ({ killed }: { killed: boolean }) => !killed);
  });

  it("is by namespaces exactly where a probe of the test's own finds them", async (test) => {
    const probe = await probeNamespaces();
    test.diagnostic(probe.works ? "namespaces: there" : `namespaces: not there: ${probe.why}`);
    const why = await whyUnconfined();
    assert.equal(why === undefined, probe.works, why);
    const [program] = await recipeCommand("interpreter");
    if (!probe.works) {
      assert.equal(program, process.execPath);
      await assert.rejects(recipeCommand("namespaces"), { code: "CONFINEMENT_FAILED" });
      return;
    }
    // Who accepts the interpreter alone gets namespaces all the same where they are.
    assert.equal(program, "/usr/bin/env");
    const command = await recipeCommand("namespaces");
    assert.ok(command.some((each) => each.endsWith("/unshare")));
    assert.ok(command.includes("/stemma/engine.mjs"));
  });
});

const confinementModule = new URL("../../../../../shared/train/own-recipes/confinement.js", import.meta.url)
  .href;

/** What another process answers, since a process tries its machine once. */
interface Answers {
  readonly isConfined: boolean;
  /** The program that runs a recipe, or the code of the refusal. */
  readonly namespaces: string;
  readonly interpreter: string;
}

/**
 * @param prelude a module that changes the process before it loads anything
 * @param within a program and its parameters that start the process
 */
async function answersOf(prelude: string, within: readonly string[] = []): Promise<Answers> {
  const script = `const { recipeCommand, whyUnconfined } = await import(${JSON.stringify(confinementModule)});
    const programOf = (required) => recipeCommand(required).then(([program]) => program, ({ code }) => code);
    console.log(JSON.stringify({ isConfined: (await whyUnconfined()) === undefined,
      namespaces: await programOf("namespaces"), interpreter: await programOf("interpreter") }));`;
  const imported = `data:text/javascript,${encodeURIComponent(prelude)}`;
  const [program = "", ...parameters] = [
    ...within,
    ...[process.execPath, "--import", imported, "--input-type=module", "-e", script],
  ];
  const { stdout } = await promisify(execFile)(program, parameters, { timeout: 60_000 });
  return JSON.parse(stdout) as Answers;
}

/** A prelude in which programs that are run print a text, whatever they are. */
const programsPrint = (text: string): string => `
  import child from "node:child_process";
  import { syncBuiltinESMExports } from "node:module";
  import { promisify } from "node:util";
  child.execFile = () => { throw new Error("only as a promise"); };
  child.execFile[promisify.custom] = async () => ({ stdout: ${JSON.stringify(text)}, stderr: "" });
  syncBuiltinESMExports();`;

/** Starts a program where no further user namespace can be made. */
const withoutNamespaces = [
  ..."unshare --user --map-root-user -- /bin/sh -c".split(" "),
  'echo 0 > /proc/sys/user/max_user_namespaces && exec "$0" "$@"',
];

const refused: Answers = {
  isConfined: false,
  namespaces: "CONFINEMENT_FAILED",
  interpreter: process.execPath,
};

describe("a machine that cannot confine", () => {
  it("refuses own recipes, unless its owner accepts the interpreter: its limit of namespaces is 0", async (test) => {
    if (!(await namespacesFor(test))) return;
    const [unshare = "", ...parameters] = withoutNamespaces;
    const probe = await probeNamespaces(async (program, attempt) => {
      const { stdout } = await promisify(execFile)(unshare, [...parameters, program, ...attempt]);
      return stdout;
    });
    assert.equal(probe.works, false, "the probe finds namespaces that are not there");
    assert.deepEqual(await answersOf("", withoutNamespaces), refused);
  });

  it("refuses them where it is not Linux", async () => {
    const prelude = 'Object.defineProperty(process, "platform", { value: "darwin" });';
    assert.deepEqual(await answersOf(prelude), refused);
  });

  for (const [what, printed] of [
    ["finds something within reach", '["reads /etc"]'],
    ["finds the network within reach", '["network ECONNREFUSED"]'],
    ["prints nothing", ""],
  ] as const)
    it(`refuses them where the confined process ${what}`, async () => {
      assert.deepEqual(await answersOf(programsPrint(printed)), refused);
    });

  it("runs them where the confined process finds nothing within reach", async (test) => {
    if (!(await namespacesFor(test))) return;
    const answers = await answersOf(programsPrint("[]"));
    assert.deepEqual(answers, { isConfined: true, namespaces: "/usr/bin/env", interpreter: "/usr/bin/env" });
  });
});

describe("the probe of namespaces", () => {
  const there = { works: true } as const;
  const absent = { works: false, why: "no unshare" } as const;

  /** What a test of confinement does, and what it prints. */
  async function outcomeOf(probe: typeof there | typeof absent, isCi: boolean): Promise<readonly unknown[]> {
    const told: string[] = [];
    const context = {
      diagnostic: (text: string) => void told.push(text),
      skip: () => void told.push("skipped"),
    };
    const runs = await namespacesFor(context, { probe: Promise.resolve(probe), isCi }).catch(() => "fails");
    return [runs, told.filter((text) => text === "skipped").length, told.length > 0];
  }

  it("lets a test run where namespaces are, skips it elsewhere, and fails it in CI; it prints which", async () => {
    assert.deepEqual(await outcomeOf(there, false), [true, 0, true]);
    assert.deepEqual(await outcomeOf(there, true), [true, 0, true]);
    assert.deepEqual(await outcomeOf(absent, false), [false, 1, true]);
    assert.deepEqual(await outcomeOf(absent, true), ["fails", 0, true]);
  });

  it("takes only the confined program's own word", async () => {
    const run = (output: string | Error) => () =>
      output instanceof Error ? Promise.reject(output) : Promise.resolve(output);
    assert.equal((await probeNamespaces(run("confined\n"))).works, true);
    assert.equal((await probeNamespaces(run(""))).works, false);
    assert.equal((await probeNamespaces(run(new Error("unshare failed")))).works, false);
  });
});
