// A device whose certificate has expired, and that reaches its server over MQTT alone: it renews, and nothing else.
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import mqtt, { type IClientOptions } from "mqtt";
import { Credentials } from "../../../../../agent/identity/credentials.js";
import { deviceKeyOf } from "../../../../../agent/identity/device-key.js";
import { invitedExchange } from "../../../../../agent/identity/exchanges.js";
import { openAuthority } from "../../../../../server/access/identity/authority.js";
import { nodeRandom, silentLog } from "../../../../../shared/adapters/node-ports.js";
import { nodeFiles } from "../../../../../shared/files/node-files.js";
import { publicKeyInfo } from "../../../../../shared/trust/certificates/connection-key.js";
import { sealEnrolment, type Enrolment } from "../../../../../shared/trust/enrolment.js";
import { loadKey } from "../../../../../shared/trust/keys.js";
import { buildTopic, clientIdOf, renewalClientIdOf } from "../../../../../shared/wire/topics.js";
import { ScriptedDevice } from "../../../../helpers/scripted-device.js";
import { startTestServer, testFleet, type TestServer } from "../../../../helpers/test-server.js";

const files = nodeFiles();
const random = nodeRandom();

describe("an expired certificate over MQTT", () => {
  let server: TestServer;
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "stemma-expired-"));
    server = await startTestServer({ tls: "own" });
  });
  after(async () => {
    await server.remove();
    await rm(folder, { recursive: true, force: true });
  });

  const pathOf = (device: string): string => join(folder, `${device}.json`);
  const credentialsOf = (enrolment: Enrolment): Credentials =>
    new Credentials({
      ...{ files, enrolment, path: pathOf(enrolment.device), deviceKey: deviceKeyOf(enrolment, undefined) },
      clock: { monotonic: () => 0 },
      log: silentLog(),
    });
  const certificatesOf = async ({ device }: Enrolment): Promise<number> =>
    (await server.handle.operations.device({ fleet: testFleet, device })).certificates?.length ?? 0;

  /** A device that was parked for long and knows no HTTPS address. */
  async function parked(device: string): Promise<Enrolment> {
    const invitation = await server.handle.operations.invite({ fleet: testFleet, device, lines: ["line"] });
    const file = join(folder, `${device}.invitation.json`);
    await writeFile(file, JSON.stringify(invitation));
    const exchange = await invitedExchange({ files, random, path: pathOf(device) }, file);
    const { identity, http: _, ...rest } = await exchange.take(await exchange.send(await exchange.request()));
    const known = (await server.handle.operations.device({ fleet: testFleet, device })).certificates?.at(-1);
    assert.ok(identity !== undefined && known !== undefined);
    const authority = await openAuthority(await loadKey(files, join(server.home, "server-key.json")), random);
    const end = { serial: known.serial, notAfterMs: Date.now() - 1000 };
    const { certificate } = await authority.issueForDevice(rest, publicKeyInfo(identity.key), end);
    return sealEnrolment({ ...rest, identity: { ...identity, certificate } });
  }

  interface Attempt {
    readonly shows?: Enrolment["identity"];
    readonly password?: unknown;
    readonly options?: IClientOptions;
    /** Sent together with the CONNECT, before its answer. */
    readonly publish?: string;
  }
  /** What a client gets that connects as it likes: the error, and the messages. */
  async function attempt(
    { device, mqtt: [address = ""] }: Enrolment,
    { shows, password, options = {}, publish }: Attempt,
  ): Promise<{ code: unknown; messages: number }> {
    const client = mqtt.connect(address, {
      ...{ protocolVersion: 4, reconnectPeriod: 0, rejectUnauthorized: false, username: device },
      clientId: renewalClientIdOf(testFleet, device),
      password: JSON.stringify(password),
      ...(shows && { cert: shows.certificate, key: shows.key }),
      ...options,
    });
    let code: unknown;
    let messages = 0;
    client.on("error", (error) => {
      code = (error as { readonly code?: unknown }).code;
    });
    client.on("message", () => messages++);
    client.on("connect", () => {
      client.subscribe("#");
      if (publish !== undefined) client.publish(publish, "anything", { qos: 1, retain: true });
    });
    await new Promise<void>((resolve) => {
      client.once("close", resolve);
    });
    client.end(true);
    return { code, messages };
  }

  it("renews it, for a connection of its own afterwards", async () => {
    const expired = await parked("van");
    await assert.rejects(ScriptedDevice.connect(expired, { session: 1 }), { code: 5 });
    const { refusals = [] } = await server.handle.operations.device({ fleet: testFleet, device: "van" });
    assert.deepEqual(
      refusals.map(({ code, count, address }) => ({ code, count, address })),
      [{ code: "CERTIFICATE_ENDED", count: 1, address: "127.0.0.1" }],
    );
    assert.match(
      refusals[0]?.message ?? "",
      /^its certificate has ended: it ended on .* not renewed; .*agent renew/,
    );
    const renewed = await credentialsOf(expired).renew();
    assert.notEqual(renewed.identity?.key, expired.identity?.key);
    assert.equal(await certificatesOf(expired), 2);
    await (await ScriptedDevice.connect(renewed, { session: 1 })).close();
  });

  it("is named by a device whose renewal does not come about, and renewed first once it does", async () => {
    const expired = await parked("stranded");
    let elapsedMs = 0;
    const clock = { monotonic: () => elapsedMs };
    const parts = { files, path: pathOf("stranded"), deviceKey: deviceKeyOf(expired, undefined), clock };
    const unreached = sealEnrolment({ ...expired, mqtt: ["mqtts://127.0.0.1:1"] });
    const stranded = new Credentials({ ...parts, log: silentLog(), enrolment: unreached });
    elapsedMs = 60_000;
    await stranded.renewIfDue();
    assert.equal(stranded.ended?.code, "CERTIFICATE_ENDED");
    assert.match(stranded.ended.message, /nothing listens there.*stemma agent renew --request FILE/);
    elapsedMs = 0;
    const reached = new Credentials({ ...parts, log: silentLog(), enrolment: expired });
    elapsedMs = 60_000;
    await reached.renewIfDue();
    assert.equal(reached.ended, undefined);
    assert.equal(await certificatesOf(expired), 2);
  });

  it("does nothing else: no session, no message in, no message out but the answer", async () => {
    const expired = await parked("curious");
    const request = await credentialsOf(expired).request();
    const topic = buildTopic({ root: expired.root, fleet: testFleet, device: "curious", kind: "state" });
    const { code, messages } = await attempt(expired, {
      shows: expired.identity,
      password: request,
      publish: topic,
    });
    assert.deepEqual({ code, messages }, { code: undefined, messages: 1 });
    const { session, online } = await server.handle.operations.device({
      fleet: testFleet,
      device: "curious",
    });
    assert.deepEqual({ session, online }, { session: 0, online: false });
    // Nothing of it is retained: the device's own first connection finds no message.
    const renewed = await credentialsOf(expired).take(await server.handle.operations.certify({ request }));
    const device = await ScriptedDevice.connect(renewed, { session: 1 });
    await device.birth();
    await device.close();
  });

  it("refuses everything that is not the device's own renewal", async () => {
    const [one, two] = [await parked("one"), await parked("two")];
    const [own, others] = [await credentialsOf(one).request(), await credentialsOf(two).request()];
    const invitation = await server.handle.operations.invite({
      fleet: testFleet,
      device: "new",
      lines: ["line"],
    });
    const will = { topic: "stemma/v1/any", payload: Buffer.from("late"), qos: 1, retain: true } as const;
    const tries: Record<string, Attempt> = {
      "a request that somebody read, without the certificate's key": { password: own },
      "a request that somebody read, with the certificate of another": { shows: two.identity, password: own },
      "the request of another": { shows: one.identity, password: others },
      "a request whose key did not sign it": {
        shows: one.identity,
        password: { ...own, renewal: { ...own.renewal, signature: others.renewal?.signature } },
      },
      "an invitation": { shows: one.identity, password: { ...own, renewal: undefined, invitation } },
      "no request": { shows: one.identity, password: "?" },
      "a will": { shows: one.identity, password: own, options: { will } },
      "the client id of a session": {
        shows: one.identity,
        password: own,
        options: { clientId: clientIdOf(testFleet, "one") },
      },
      "the name of another": { shows: one.identity, password: own, options: { username: "two" } },
    };
    for (const [what, each] of Object.entries(tries))
      assert.deepEqual(await attempt(one, each), { code: 5, messages: 0 }, what);
    assert.deepEqual([await certificatesOf(one), await certificatesOf(two)], [1, 1]);
  });

  it("gives a revoked or replaced device nothing", async () => {
    const expired = await parked("sold");
    const request = await credentialsOf(expired).request();
    await server.handle.operations.revoke({ fleet: testFleet, device: "sold" });
    const shows = expired.identity;
    assert.deepEqual(await attempt(expired, { shows, password: request }), { code: 5, messages: 0 });
    await assert.rejects(credentialsOf(expired).renew(), { code: "CERTIFICATE_REFUSED", message: /MQTT/ });
    await server.handle.operations.invite({ fleet: testFleet, device: "sold", lines: ["line"] });
    assert.deepEqual(await attempt(expired, { shows, password: request }), { code: 5, messages: 0 });
  });
});
