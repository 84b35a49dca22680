/**
 * The single executables are all that a machine needs: in a root that has their shared libraries and nothing else, a
 * server trains a base, a device trains on, reports, and the server proves it; killed and started again, upgraded, and
 * with damaged files.
 */
import assert from "node:assert/strict";
import { execFile, type ChildProcess, type ChildProcessWithoutNullStreams } from "node:child_process";
import { createPublicKey, generateKeyPairSync, verify } from "node:crypto";
import { EventEmitter, once } from "node:events";
import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { repositoryRoot } from "../../helpers/markdown.js";
import { namespacesFor } from "../../helpers/namespaces-probe.js";
import { SmallRoot, whyNoRoot } from "../../helpers/small-root.js";

const run = promisify(execFile);
const target = `linux-${process.arch}`;
const { id: engineId } = JSON.parse(
  await readFile(join(repositoryRoot, "dist/engine/built-from.json"), "utf8"),
) as { readonly id: string };
const engine = engineId.slice(0, 12);

let folder = "";
const made = (name: string, version = "0.1.0"): string =>
  join(folder, `made-${version}`, `${name}-${version}-${target}`);
const keys = generateKeyPairSync("ed25519");

/** Makes the executables with a version of their own. @param names both unless named */
async function make(version: string, ...names: readonly string[]): Promise<void> {
  const key = join(folder, "release.key");
  await writeFile(key, keys.privateKey.export({ type: "pkcs8", format: "pem" }));
  const options = [
    "--target",
    target,
    "--out",
    join(folder, `made-${version}`),
    "--key",
    key,
    "--release",
    version,
  ];
  await run(process.execPath, [join(repositoryRoot, "packaging/main.mjs"), ...options, ...names]);
}

/** A program that stays, and the lines that it prints. */
class Running {
  readonly #lines: string[] = [];
  readonly #printed = new EventEmitter().setMaxListeners(0);
  constructor(readonly process: ChildProcessWithoutNullStreams) {
    for (const stream of [process.stdout, process.stderr])
      createInterface({ input: stream }).on("line", (text) => {
        this.#lines.push(text);
        this.#printed.emit("line");
      });
    process.once("close", () => this.#printed.emit("line", "closed"));
  }

  /** Resolves with the first line that matches, also one that is there already. */
  async line(pattern: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const found = this.#lines.map((line) => pattern.exec(line)).find((each) => each !== null);
      if (found) return found;
      const [closed] = (await once(this.#printed, "line")) as [string | undefined];
      assert.equal(closed, undefined, `It ended:\n${this.#lines.slice(-10).join("\n")}`);
    }
  }
}

/** The reason why nothing can be made here: Node's own program is fetched from the npm registry once. */
async function whyNotMade(): Promise<string | undefined> {
  if (process.platform !== "linux") return "executables are made for Linux";
  const { baseNode } = (await import(
    pathToFileURL(join(repositoryRoot, "packaging/base-node.mjs")).href
  )) as {
    readonly baseNode: (target: string) => Promise<unknown>;
  };
  try {
    await baseNode(target);
    return undefined;
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    // What the registry gave is not what is pinned: that is no reason to leave it out.
    if (text.includes("pins")) throw error;
    return `the registry gives no Node for ${target}: ${text.slice(0, 200)}`;
  }
}

const whyNot = await whyNotMade();

describe("single executables", { skip: whyNot ?? false }, () => {
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "stemma-executables-"));
    await make("0.1.0");
  });
  after(async () => {
    await rm(folder, { recursive: true, force: true });
  });

  test("each says what it is, unpacks once, and makes what is damaged again", async (t) => {
    const unpacked = join(folder, "unpacked");
    const env = { ...process.env, STEMMA_UNPACKED: unpacked };
    const version = async (): Promise<string> =>
      (await run(made("stemma-agent"), ["--version"], { env })).stdout;
    assert.match(
      await version(),
      new RegExp(`^0\\.1\\.0 \\(commit \\S+, engine ${engine}, Node 24\\.\\S+, ${target}\\)\\n$`),
    );
    // A device has no command `stemma`: what is said can be typed there.
    const help = await run(made("stemma-agent"), ["stop", "--help"], { env });
    assert.match(help.stdout, /^Usage: stemma-agent stop /);
    await assert.rejects(
      run(made("stemma-agent"), ["status", "--home", folder], { env }),
      /Start one with `stemma-agent run --home/,
    );
    const [id = ""] = await readdir(unpacked);
    const file = join(unpacked, id, "dist/engine/kernels.wasm");
    const main = join(unpacked, id, "dist/agent/cli/main.js");
    const { ino } = await stat(file);
    const bytes = await readFile(file);
    await version();
    assert.equal((await stat(file)).ino, ino);
    await chmod(file, 0o600);
    await writeFile(file, Buffer.alloc(bytes.length));
    await rm(main);
    await version();
    assert.deepEqual(await readFile(file), bytes);
    await stat(main);
    // A folder that others may write to is refused: code runs from there.
    await chmod(unpacked, 0o777);
    await assert.rejects(run(made("stemma-agent"), ["--version"], { env }), /belongs to this user alone/);
    // What it carries is compared before it is written.
    const damaged = join(folder, "damaged");
    const program = await readFile(made("stemma-agent"));
    program[program.length - 1] = (program.at(-1) ?? 0) ^ 1;
    await writeFile(damaged, program, { mode: 0o755 });
    const fresh = { ...env, STEMMA_UNPACKED: join(folder, "unpacked-2") };
    await assert.rejects(
      run(damaged, ["--version"], { env: fresh }),
      /damaged is damaged, in its .*Install it/,
    );
    t.diagnostic(`${program.length} bytes`);
  });

  test("the same checkout gives the same bytes, and the sums of all files are signed", async () => {
    const first = join(folder, "made-0.1.0");
    const sums = await readFile(join(first, "SHA256SUMS"));
    const signature = await readFile(join(first, "SHA256SUMS.sig"));
    const releaseKey = createPublicKey(keys.publicKey.export({ type: "spki", format: "pem" }));
    assert.ok(verify(null, sums, releaseKey, signature));
    await run("sha256sum", ["--check", "--strict", "SHA256SUMS"], { cwd: first });
    assert.equal(sums.toString().trim().split("\n").length, 4);
    const again = join(folder, "again");
    const options = ["--target", target, "--out", again, "--release", "0.1.0", "agent"];
    await run(process.execPath, [join(repositoryRoot, "packaging/main.mjs"), ...options]);
    for (const name of [`stemma-agent-0.1.0-${target}`, `stemma-agent-0.1.0-${target}.cdx.json`])
      assert.ok((await readFile(join(first, name))).equals(await readFile(join(again, name))), name);
    // Another checkout gives them, too: nothing in the file says where it was made.
    assert.equal((await readFile(made("stemma-agent"))).indexOf(`${repositoryRoot}/`), -1);
    const parts = JSON.parse(await readFile(`${made("stemma-agent")}.cdx.json`, "utf8")) as {
      components: readonly { group?: string; name: string; version: string; licenses?: unknown }[];
    };
    const named = parts.components.map(({ group, name }) =>
      group === undefined ? name : `${group}/${name}`,
    );
    for (const name of [
      "node",
      "mqtt",
      "protobufjs",
      "@tensorflow/tfjs-core",
      "@tensorflow/tfjs-backend-wasm",
    ])
      assert.ok(named.includes(name), name);
    assert.deepEqual(
      parts.components.filter(({ licenses }) => licenses === undefined),
      [],
    );
  });

  test("a fleet's own recipe is confined when an executable runs it", async (t) => {
    if (!(await namespacesFor(t))) return;
    const env = { ...process.env, STEMMA_HOME: join(folder, "recipes"), STEMMA_FLEET: "local" };
    const stemma = (...args: readonly string[]) => run(made("stemma"), [...args], { env, cwd: folder });
    const { stdout: examined } = await stemma("doctor");
    assert.match(examined, /own recipes +confined by namespaces/);
    await stemma("recipe", "init", "mine");
    assert.match((await stemma("recipe", "check", "mine", "--set", "epochs=2")).stdout, /^exact: /m);
    // A part that is to answer a recipe's calls refuses where Node's options did not reach it.
    const script = join(repositoryRoot, "dist/engine/engine.mjs");
    await assert.rejects(
      run(made("stemma"), ["--stemma-part", script, "--recipe"], { env: {} }),
      /runs no code of a recipe/,
    );
  });

  test("a server and a device run from them where there is no Node, through kills and an upgrade", async (t) => {
    const why = await whyNoRoot();
    if (why !== undefined) {
      t.skip(`this machine gives no process a root of its own: ${why}`);
      return;
    }
    const root = new SmallRoot(join(folder, "root"));
    await root.prepare(made("stemma"));
    await root.install(made("stemma"), "stemma");
    await root.install(made("stemma-agent"), "stemma-agent");
    const running = new Set<ChildProcess>();
    t.after(() => {
      for (const child of running) child.kill("SIGKILL");
    });
    const start = (name: string, ...args: readonly string[]): Running => {
      const child = new Running(root.start(name, ...args));
      running.add(child.process);
      return child;
    };
    const kill = async ({ process: child }: Running): Promise<void> => {
      const closed = once(child, "close");
      child.kill("SIGKILL");
      await closed;
      running.delete(child);
    };
    const done = async (name: string, ...args: readonly string[]): Promise<string> => {
      const { status, stdout, stderr } = await root.run(name, ...args);
      assert.equal(status, 0, `${name} ${args.join(" ")}: ${stdout}${stderr}`);
      return stdout;
    };
    const ofServer = ["--home", "/srv/server", "--fleet", "cars"];
    const ofDevice = ["--home", "/srv/van-7"];
    const server = (...ports: readonly string[]) =>
      start("stemma", "server", ...ofServer, "--log", "json", ...ports);
    const device = () => start("stemma-agent", "run", ...ofDevice, "--log", "json");

    const first = server("--mqtt-port", "0", "--http-port", "0");
    const [, mqttPort = "", httpPort = ""] = await first.line(/mqtts:\S+?:(\d+) .*?https:\S+?:(\d+)/);
    await done("stemma", "data", "add", "cells", "-", "--kind", "battery-simulated", ...ofServer);
    await done(
      "stemma",
      ..."model train --recipe battery-soh --data cells --name soh-base".split(" "),
      ...ofServer,
    );
    await done(
      ...(["stemma", "device", "enroll", "van-7", "--line", "pack-soh"] as const),
      ...["--initial", "pack-soh=soh-base", "--file", "/srv/invitation.json", ...ofServer],
    );
    await done("stemma-agent", "enroll", "/srv/invitation.json", ...ofDevice);
    // Its samples come along, so the server makes the model itself and proves it so.
    const line = {
      recipe: "battery-soh",
      approach: "provenance",
      sendSamples: true,
      schedule: { afterSamples: 1000 },
    };
    const settings = { format: 1, lines: { "pack-soh": line } };
    await writeFile(join(root.folder, "srv/van-7/agent.json"), JSON.stringify(settings));
    const samples = await run(process.execPath, [join(repositoryRoot, "examples/samples.mjs"), "120"]);
    await writeFile(join(root.folder, "srv/samples.jsonl"), samples.stdout);

    let agent = device();
    await agent.line(/"event":"activated"/);
    await done("stemma-agent", "samples", "pack-soh", "/srv/samples.jsonl", ...ofDevice);
    const training = root.run("stemma-agent", "train", "pack-soh", ...ofDevice);
    await agent.line(/"event":"training"/);
    // In the middle of a training; then the server, while the device is away.
    await kill(agent);
    await training;
    await kill(first);

    const second = server("--mqtt-port", mqttPort, "--http-port", httpPort);
    await second.line(/^stemma server: /);
    agent = device();
    await agent.line(/"event":"welcomed"/);
    await done("stemma-agent", "train", "pack-soh", ...ofDevice);
    // The server has made the model again itself, and keeps its own tensors only because they are the same bits.
    await second.line(/"event":"claim-ended".*"verdict":"proved"/);
    const [, name = ""] = await agent.line(/"event":"released".*"name":"(pack-soh-van-7:\d+)"/);
    assert.match(await done("stemma", "model", "verify", name, ...ofServer), /yes/);
    await kill(agent);

    // The newer one opens the older one's home, and trains on.
    await make("0.1.1", "agent");
    await root.install(made("stemma-agent", "0.1.1"), "stemma-agent");
    assert.match(await done("stemma-agent", "--version"), /^0\.1\.1 /);
    agent = device();
    await agent.line(/"event":"welcomed"/);
    await done("stemma-agent", "samples", "pack-soh", "/srv/samples.jsonl", ...ofDevice);
    await done("stemma-agent", "train", "pack-soh", ...ofDevice);
    const [, id = ""] = await agent.line(/"event":"trained".*"versionId":"([0-9a-f]+)"/);
    const [, newer = ""] = await agent.line(new RegExp(`"event":"released".*"${id}","name":"([^"]+)"`));
    const { story } = JSON.parse(
      await done("stemma", "model", "story", newer, "-o", "json", ...ofServer),
    ) as {
      story: string;
    };
    const { environment } = JSON.parse(story) as { environment: { fields: Record<string, string> } };
    assert.equal(environment.fields["stemma"], "0.1.1");
    assert.ok("library.@tensorflow/tfjs" in environment.fields);
    // No program of this root makes namespaces, so own recipes are refused here and not run unconfined.
    assert.match(await done("stemma", "doctor", ...ofServer), /own recipes +refused/);
    await kill(agent);

    // Back to the older one, on the home that the newer one wrote to.
    await root.install(made("stemma-agent"), "stemma-agent");
    agent = device();
    await agent.line(/"event":"welcomed"/);
    assert.match(await done("stemma-agent", "status", ...ofDevice), /pack-soh-van-7/);
    await kill(agent);
    await kill(second);
  });
});
