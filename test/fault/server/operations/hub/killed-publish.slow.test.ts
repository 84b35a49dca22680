/**
 * A publish and a pull of which one side is killed (-9), or whose disk is full, while a large object travels: nothing
 * of the model is visible, the same command goes on, and the store is whole.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdir, mkdtemp, readdir, rm, stat, writeFile } from "node:fs/promises";
import { setImmediate as nextTurn } from "node:timers/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, beforeEach, describe, it, type TestContext } from "node:test";
import {
  startServerProcess,
  type ServerProcess,
} from "../../../../../server/cli/simulation/server-process.js";
import { fileOf } from "../../../../integration/server/interface/http/http-requests.js";
import { seededNumbers } from "../../../../helpers/manual-clock.js";
import { noiseBytes } from "../../../../helpers/noise-bytes.js";
import { runStemmaProcess, spawnStemma } from "../../../../helpers/run-stemma.js";
import { fillDisk, mountSmallDisk } from "../../../../helpers/small-disk.js";

const fleet = "local";
const mebibyte = 1024 * 1024;
const tensorBytes = 48 * mebibyte;
const seed = Number(process.env["STEMMA_TEST_SEED"] ?? 23);

/** Bytes of the object that is on its way to a home. */
async function partBytes(home: string): Promise<number> {
  const folder = join(home, "fleets", fleet, "deposits");
  const names = await readdir(folder).catch(() => []);
  const sizes = await Promise.all(names.map(async (name) => (await stat(join(folder, name))).size)).catch(
    () => [],
  );
  return Math.max(0, ...sizes);
}

describe(`a large model on its way (seed ${seed})`, () => {
  const random = seededNumbers(seed);
  let folder: string;
  let source: string;
  let runs = 0;
  let hub: { readonly home: string; server: ServerProcess; readonly token: string };

  const environment = (): Record<string, string> => ({ STEMMA_FLEET: fleet, STEMMA_TOKEN: hub.token });
  const publish = (): readonly string[] => [
    "publish",
    "m",
    "--to",
    hub.server.httpUrl,
    "--namespace",
    fleet,
    "--home",
    source,
  ];
  const pull = (home: string): readonly string[] => [
    "pull",
    "m",
    "--from",
    hub.server.httpUrl,
    "--namespace",
    fleet,
    "--home",
    home,
  ];
  const good = async (args: readonly string[]): Promise<string> => {
    const { status, stdout, stderr } = await runStemmaProcess(args, environment());
    assert.equal(status, 0, `${args.join(" ")}\n${stdout}${stderr}`);
    return stdout;
  };
  /** Runs the command, and `interrupt` once a part of the object is in the home's file. */
  const interrupted = async (
    args: readonly string[],
    home: string,
    interrupt: (child: ReturnType<typeof spawnStemma>) => unknown,
  ): Promise<string> => {
    const child = spawnStemma(args, environment());
    let stderr = "";
    child.stderr.on("data", (data: Buffer) => (stderr += data.toString()));
    child.stdout.resume();
    const closed = once(child, "close");
    const least = Math.floor(random() * 8 * mebibyte) + 1;
    // Without pauses between two looks: the object is there within a few tenths of a second.
    while (child.exitCode === null && (await partBytes(home)) < least) await nextTurn();
    await interrupt(child);
    await closed;
    return stderr;
  };
  const startHub = async (home: string): Promise<typeof hub> => {
    await mkdir(home, { recursive: true });
    await writeFile(join(home, "server.json"), '{"format":1,"hub":{"enabled":true}}');
    const server = await startServerProcess(home, fleet);
    const { token } = await server.operations.addToken({ name: "ann", role: "publisher" });
    return { home, server, token };
  };
  const modelsIn = async (home: string): Promise<number> => {
    const { stdout } = await runStemmaProcess(["model", "list", "-o", "name", "--home", home], environment());
    return stdout.split("\n").filter((line) => line !== "").length;
  };
  const isWhole = async (home: string): Promise<void> => {
    await good(["model", "verify", "m", "--home", home]);
    await good(["storage", "check", "--home", home]);
    assert.equal(await partBytes(home), 0);
  };

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "stemma-killed-publish-"));
    source = join(folder, "source");
    const model = join(folder, "m.safetensors");
    await writeFile(model, await fileOf({ a: new Uint8Array(9), b: noiseBytes(tensorBytes, 7) }));
    const { status, stderr } = await runStemmaProcess(
      ["model", "import", model, "--name", "m", "--home", source],
      { STEMMA_FLEET: fleet },
    );
    assert.equal(status, 0, stderr);
  });
  beforeEach(async () => {
    hub = await startHub(join(folder, `hub-${++runs}`));
  });
  const end = async (): Promise<void> => {
    await hub.server.operations.close();
    await hub.server.kill("SIGTERM");
  };
  after(() => rm(folder, { recursive: true, force: true }));

  it("is all there or not at all where the hub is killed, and goes on", async (t) => {
    t.after(end);
    let seen = 0;
    for (let kill = 0; kill < 3 && seen === 0; kill++) {
      await interrupted(publish(), hub.home, () => hub.server.kill("SIGKILL"));
      seen = await partBytes(hub.home);
      hub.server = await startServerProcess(hub.home, fleet);
      assert.ok(seen === 0 || (await modelsIn(hub.home)) === 0);
      assert.ok(seen === 0 || (await hub.server.operations.searchHub({ fleet })).total === 0);
    }
    assert.ok(seen > 0, "no kill came while the object travelled");
    const sent = await good([...publish(), "-o", "json"]);
    assert.ok((JSON.parse(sent) as { bytes: number }).bytes <= tensorBytes + mebibyte - seen);
    await isWhole(hub.home);
  });

  it("is all there or not at all where the sender is killed, and goes on", async (t) => {
    t.after(end);
    let seen = 0;
    for (let kill = 0; kill < 3 && seen === 0; kill++) {
      await interrupted(publish(), hub.home, (child) => child.kill("SIGKILL"));
      const listed = await modelsIn(hub.home);
      seen = listed === 0 ? await partBytes(hub.home) : 0;
    }
    assert.ok(seen > 0, "no kill came while the object travelled");
    await good(publish());
    await isWhole(hub.home);
  });

  it("is all there or not at all where a pull is killed, and goes on", async (t) => {
    t.after(end);
    await good(publish());
    const target = join(folder, "pulled");
    await interrupted(pull(target), target, (child) => child.kill("SIGKILL"));
    const seen = await partBytes(target);
    assert.ok(seen > 0, "the kill came while the object travelled");
    assert.equal(await modelsIn(target), 0);
    const taken = await good([...pull(target), "-o", "json"]);
    assert.ok((JSON.parse(taken) as { bytes: number }).bytes <= tensorBytes + mebibyte - seen);
    await isWhole(target);
  });

  for (const where of ["hub", "puller"] as const)
    it(`is not there where the disk of the ${where} is full, and comes once it has space`, async (t: TestContext) => {
      t.after(end);
      const disk = await mountSmallDisk(256);
      if (typeof disk === "string") {
        t.skip(disk);
        return;
      }
      t.after(() => disk.release());
      const home = join(disk.folder, "home");
      if (where === "hub") {
        await end();
        hub = await startHub(home);
      } else {
        await mkdir(home, { recursive: true });
        await good(publish());
      }
      const command = where === "hub" ? publish() : pull(home);
      const filler = join(disk.folder, "filler");
      const stderr = await interrupted(command, home, async ({ pid = 0 }) => {
        // The receiver stands still until the disk is full.
        const receiver = where === "hub" ? hub.server.pid : pid;
        process.kill(receiver, "SIGSTOP");
        await fillDisk(filler);
        process.kill(receiver, "SIGCONT");
      });
      assert.match(stderr, /\[DISK_FULL\]/);
      assert.equal(await modelsIn(home), 0);
      const again = await runStemmaProcess(command, environment());
      assert.match(again.stderr, /\[DISK_FULL\]/);
      await rm(filler);
      await good(command);
      await isWhole(home);
      if (where === "hub") await end();
    });
});
