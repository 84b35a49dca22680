/** Changes of the server's key: more than one, after the overlap, across backups, with tokens. */
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { invitedExchange, renewalExchange } from "../../../../agent/identity/exchanges.js";
import { deviceKeyOf } from "../../../../agent/identity/device-key.js";
import { Credentials } from "../../../../agent/identity/credentials.js";
import { openNodeHome } from "../../../../server/repository/node-home.js";
import { rotateServerKey, type RotateOptions } from "../../../../server/repository/rotate-key.js";
import { startServer } from "../../../../server/main.js";
import { nodeRandom, silentLog } from "../../../../shared/adapters/node-ports.js";
import { nodeFiles } from "../../../../shared/files/node-files.js";
import { loadEnrolment, sealEnrolment, type Enrolment } from "../../../../shared/trust/enrolment.js";
import { runStemmaHere, type ProgramResult } from "../../../helpers/run-stemma-here.js";
import { ScriptedDevice } from "../../../helpers/scripted-device.js";
import { startTestServer, testFleet, type TestServer } from "../../../helpers/test-server.js";

const files = nodeFiles();
const random = nodeRandom();
const clock = { monotonic: () => 0 };
const log = silentLog();
const dayMs = 86_400_000;
const overlap = { overlapMs: 90 * dayMs };

class Fixture {
  readonly #ports: { readonly mqttPort: number; readonly httpPort: number };
  private constructor(
    readonly server: TestServer,
    readonly folder: string,
  ) {
    const portOf = (url: string): number => Number(new URL(url.replace("mqtts:", "https:")).port);
    this.#ports = {
      mqttPort: portOf(server.handle.mqttUrl),
      httpPort: portOf(server.handle.httpUrl),
    };
  }
  static async start(t: TestContext): Promise<Fixture> {
    const folder = await mkdtemp(join(tmpdir(), "stemma-server-key-"));
    const server = await startTestServer({ tls: "own" });
    t.after(async () => {
      await server.remove();
      await rm(folder, { recursive: true, force: true });
    });
    return new Fixture(server, folder);
  }
  path(device: string): string {
    return join(this.folder, `${device}.json`);
  }
  /** On the ports of before, which devices know. */
  async restart(): Promise<void> {
    this.server.handle = await startServer(
      { home: this.server.home, fleets: [testFleet], tls: "own", ...this.#ports },
      log,
    );
  }
  async whileStopped(
    work: (home: Awaited<ReturnType<typeof openNodeHome>>) => Promise<unknown>,
  ): Promise<void> {
    await this.server.handle.close();
    const home = await openNodeHome(this.server.home);
    try {
      await work(home);
    } finally {
      await home.close();
    }
    await this.restart();
  }
  rotate(options: RotateOptions = overlap): Promise<void> {
    return this.whileStopped((home) => rotateServerKey(home, options));
  }
  async invite(device: string): Promise<string> {
    const invitation = await this.server.handle.operations.invite({
      fleet: testFleet,
      device,
      lines: ["line"],
    });
    const file = join(this.folder, `${device}.invitation.json`);
    await writeFile(file, JSON.stringify(invitation));
    return file;
  }
  async enrolWith(file: string, device: string): Promise<Enrolment> {
    const exchange = await invitedExchange({ files, random, path: this.path(device) }, file);
    return exchange.take(await exchange.send(await exchange.request()));
  }
  async enrol(device: string): Promise<Enrolment> {
    return this.enrolWith(await this.invite(device), device);
  }
  async credentials(device: string): Promise<Credentials> {
    const path = this.path(device);
    const enrolment = await loadEnrolment(files, path);
    return new Credentials({
      files,
      path,
      enrolment,
      deviceKey: deviceKeyOf(enrolment, undefined),
      clock,
      log,
    });
  }
  async dial(device: string): Promise<Enrolment> {
    const socket = await (await this.credentials(device)).dial(this.server.handle.mqttUrl);
    socket.destroy();
    return loadEnrolment(files, this.path(device));
  }
  /** As `stemma agent renew --request`, `device sign` and `agent renew --response` do. */
  async renewByFiles(device: string): Promise<Enrolment> {
    const exchange = await renewalExchange({ files, path: this.path(device), clock, log });
    const request = await exchange.request();
    return exchange.take(await this.server.handle.operations.certify({ request }));
  }
  get key(): Promise<string> {
    return this.server.handle.operations.health().then(({ publicKey }) => publicKey ?? "");
  }
  async connects(enrolment: Enrolment, session: number): Promise<void> {
    const device = await ScriptedDevice.connect(enrolment, { session });
    await device.birth();
    await device.close();
  }
}

const refused = { code: "CERTIFICATE_REFUSED" };

test("a device that was away for two changes is told what to do, and files that are carried do it", async (t) => {
  const one = await Fixture.start(t);
  const before = await one.enrol("parked");
  const invitation = await one.invite("late");
  await one.rotate();
  await one.rotate();
  await assert.rejects(one.dial("parked"), { ...refused, message: /stemma agent renew --request FILE/ });
  await assert.rejects(one.enrolWith(invitation, "late"), refused);
  const after = await one.renewByFiles("parked");
  assert.equal(after.serverPublicKey, await one.key);
  assert.equal(after.formerServerKeys?.[0], before.serverPublicKey);
  await one.dial("parked");
  await one.connects(after, 1);
});

test("after the overlap the key before opens nothing, and files still lead to the new one", async (t) => {
  const one = await Fixture.start(t);
  await one.enrol("parked");
  const invitation = JSON.parse(await readFile(await one.invite("late"), "utf8")) as object;
  await one.rotate({ overlapMs: 0 });
  await assert.rejects(one.dial("parked"), refused);
  const exchange = await invitedExchange(
    { files, random, path: one.path("late") },
    join(one.folder, "late.invitation.json"),
  );
  const request = await exchange.request();
  assert.deepEqual(request.invitation, invitation);
  await assert.rejects(one.server.handle.operations.certify({ request }), refused);
  await one.renewByFiles("parked");
  await one.dial("parked");
});

test("the journal, kept heads and backups go on across a change", async (t) => {
  const one = await Fixture.start(t);
  const { home } = one.server;
  const run = async (...args: string[]): Promise<ProgramResult> =>
    runStemmaHere([...args, "--fleet", testFleet], { home });
  const good = async (...args: string[]): Promise<string> => {
    const { status, stdout, stderr } = await run(...args);
    assert.equal(status, 0, stderr);
    return stdout;
  };
  const heads = join(one.folder, "heads");
  const exported = join(one.folder, "exported");
  const backup = join(one.folder, "backup");
  const key = await one.key;
  assert.match((await run("server-key", "rotate")).stderr, /HOME_LOCKED/);
  await good("journal", "head", "--witness", heads);
  await good("storage", "backup", backup, "--plain-key");
  await one.server.handle.close();
  assert.match(await good("server-key", "rotate", "--dry-run"), new RegExp(`would replace the key ${key}`));
  assert.match(await good("server-key", "rotate", "--overlap", "30d"), /is good until/);
  const present = (JSON.parse(await good("server-key", "show", "-o", "json")) as { publicKey: string })
    .publicKey;
  assert.notEqual(present, key);
  await good("journal", "head", "--witness", heads);
  await good("journal", "verify", "--witness", heads);
  await good("journal", "verify", "--key", key);
  await good("journal", "export", "--file", exported);
  await good("journal", "verify", "--log", exported, "--key", key);
  const { facts } = JSON.parse(await good("journal", "list", "-o", "json")) as {
    facts: readonly { readonly type: string; readonly by?: { readonly through: string } }[];
  };
  assert.deepEqual(
    facts.filter(({ type }) => type === "server-key").map(({ by }) => by?.through),
    ["command"],
  );
  await good("storage", "backup", backup, "--plain-key");
  const restored = join(one.folder, "restored");
  assert.equal((await runStemmaHere(["storage", "restore", backup], { home: restored })).status, 0);
  const shown = await runStemmaHere(["server-key", "show", "-o", "json"], { home: restored });
  assert.deepEqual(
    [present, [key]],
    [
      (JSON.parse(shown.stdout) as { publicKey: string }).publicKey,
      (JSON.parse(shown.stdout) as { before: string[] }).before,
    ],
  );
  await good("server-key", "revoke-old");
  assert.match((await run("journal", "verify", "--key", key)).stderr, /HEAD_SIGNATURE_INVALID/);
  await good("journal", "verify", "--key", present);
  assert.match((await run("server-key", "rotate", "--overlap", "soon")).stderr, /\[USAGE\]/);
  await one.restart();
});

test("a device with a token goes on with its file written again", async (t) => {
  const one = await Fixture.start(t);
  await one.server.restart({ deviceTokens: true });
  const enrolment = await one.server.enroll("old");
  const file = one.path("old");
  await writeFile(file, JSON.stringify(enrolment));
  await one.server.handle.close();
  const home = await openNodeHome(one.server.home);
  await rotateServerKey(home, overlap);
  await home.close();
  await one.server.restart({ deviceTokens: true });
  await assert.rejects(one.dial("old"), { ...refused, message: /--readdress/ });
  const { status, stderr } = await runStemmaHere(
    ["device", "enroll", "old", "--readdress", file, "--fleet", testFleet],
    { home: one.server.home },
  );
  assert.equal(status, 0, stderr);
  const moved = await loadEnrolment(files, file);
  assert.deepEqual(
    [moved.serverPublicKey, moved.formerServerKeys],
    [await one.key, [enrolment.serverPublicKey]],
  );
  assert.equal(moved.token, sealEnrolment(enrolment).token);
  await one.connects(moved, 1);
});
