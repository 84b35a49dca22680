// The server's key changes: who was away once follows, who was away longer is told what to do, a stolen key ends.
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { invitedExchange, renewalExchange } from "../../../../agent/identity/exchanges.js";
import { deviceKeyOf } from "../../../../agent/identity/device-key.js";
import { Credentials } from "../../../../agent/identity/credentials.js";
import { startAgent } from "../../../../agent/main.js";
import { openNodeHome } from "../../../../server/repository/node-home.js";
import {
  revokeKeyBefore,
  rotateServerKey,
  type RotateOptions,
} from "../../../../server/repository/rotate-key.js";
import { startServer } from "../../../../server/main.js";
import { nodeRandom, silentLog } from "../../../../shared/adapters/node-ports.js";
import { nodeFiles } from "../../../../shared/files/node-files.js";
import { loadEnrolment, sealEnrolment, type Enrolment } from "../../../../shared/trust/enrolment.js";
import { fakeTraining, testProfile, WaitableLog } from "../../../helpers/agent-fixtures.js";
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

test("a device that was away while the key changed follows it, and so does an invitation", async (t) => {
  const one = await Fixture.start(t);
  const before = await one.enrol("van");
  const invitation = await one.invite("late");
  await one.rotate();
  const key = await one.key;
  assert.notEqual(key, before.serverPublicKey);
  const after = await one.dial("van");
  assert.deepEqual([after.serverPublicKey, after.formerServerKeys], [key, [before.serverPublicKey]]);
  assert.notDeepEqual(after.authorities, before.authorities);
  assert.notEqual(after.identity?.key, before.identity?.key);
  await one.connects(after, 1);
  const late = await one.enrolWith(invitation, "late");
  assert.deepEqual([late.serverPublicKey, late.formerServerKeys], [key, [before.serverPublicKey]]);
  await one.connects(late, 1);
  // Again, for the device that followed.
  await one.rotate();
  const again = await one.dial("van");
  assert.deepEqual(again.formerServerKeys, [before.serverPublicKey, key]);
  await one.connects(again, 2);
});

test("a device that does not reach its server over HTTPS follows over MQTT", async (t) => {
  const one = await Fixture.start(t);
  const { http: _, ...before } = await one.enrol("tunnel");
  await writeFile(one.path("tunnel"), JSON.stringify(sealEnrolment(before)));
  await one.rotate();
  const after = await one.dial("tunnel");
  assert.deepEqual(
    [after.serverPublicKey, after.formerServerKeys],
    [await one.key, [before.serverPublicKey]],
  );
  assert.notEqual(after.identity?.key, before.identity?.key);
  await one.connects(after, 1);
});

test("a key that was withdrawn leads nobody any more; who has followed, or is invited again, goes on", async (t) => {
  const one = await Fixture.start(t);
  const [followed, left] = [await one.enrol("followed"), await one.enrol("left")];
  const invitation = await one.invite("late");
  await one.rotate();
  const after = await one.dial("followed");
  await one.whileStopped((home) => revokeKeyBefore(home));
  await assert.rejects(one.dial("left"), refused);
  await assert.rejects(one.renewByFiles("left"), { code: /CERTIFICATE_REFUSED|ENROLMENT_INVALID/ });
  await assert.rejects(one.enrolWith(invitation, "late"), refused);
  await one.dial("followed");
  await one.connects(after, 1);
  const again = await one.enrol("left");
  assert.deepEqual([again.generation, again.formerServerKeys], [left.generation + 1, undefined]);
  await one.connects(again, 1);
  assert.notEqual(again.serverPublicKey, followed.serverPublicKey);
  await assert.rejects(
    one.whileStopped((home) => revokeKeyBefore(home)),
    { code: "NOT_FOUND" },
  );
  await one.restart();
  // At once, with the change.
  await one.rotate({ ...overlap, revokeOld: true });
  await assert.rejects(one.dial("followed"), refused);
});

test("an agent that runs while the key changes goes on, and announces nothing twice", async (t) => {
  const one = await Fixture.start(t);
  const home = join(one.folder, "home");
  await files.makeFolder(home);
  const path = join(home, "enrolment.json");
  const exchange = await invitedExchange({ files, random, path }, await one.invite("v1"));
  const before = await exchange.take(await exchange.send(await exchange.request()));
  const events = new WaitableLog();
  const handle = await startAgent(
    { home, config: { format: 1 }, profile: { ...testProfile({}) }, log: events },
    { train: fakeTraining().train, checkRecipe: () => undefined },
  );
  t.after(() => handle.close());
  await events.until("welcomed");
  const welcomed = events.next("welcomed");
  await one.rotate();
  await events.until("server-key-changed");
  await welcomed;
  assert.equal(events.count("server-changed"), 0);
  const after = await loadEnrolment(files, path);
  assert.deepEqual(
    [after.serverPublicKey, after.formerServerKeys],
    [await one.key, [before.serverPublicKey]],
  );
  // A command is signed by the new key.
  await one.server.handle.operations.setDevices({
    fleet: testFleet,
    device: "v1",
    settings: { "log.level": "debug" },
  });
  await events.until("settings-changed");
});
