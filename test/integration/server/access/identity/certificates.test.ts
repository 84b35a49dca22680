// Devices with certificates at a real server over TLS: enrolment, connections, renewal, and who is kept out.
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { connect } from "node:tls";
import { invitedExchange } from "../../../../../agent/identity/exchanges.js";
import { deviceKeyOf } from "../../../../../agent/identity/device-key.js";
import { Credentials } from "../../../../../agent/identity/credentials.js";
import { openAuthority } from "../../../../../server/access/identity/authority.js";
import type { OperationInput } from "../../../../../server/interface/api/server-operations.js";
import { nodeRandom, silentLog } from "../../../../../shared/adapters/node-ports.js";
import { nodeFiles } from "../../../../../shared/files/node-files.js";
import { makeRequest, readRequest } from "../../../../../shared/trust/certificates/certificate-request.js";
import {
  generateConnectionKey,
  publicKeyInfo,
} from "../../../../../shared/trust/certificates/connection-key.js";
import { loadEnrolment, sealEnrolment, type Enrolment } from "../../../../../shared/trust/enrolment.js";
import { generateKey, loadKey } from "../../../../../shared/trust/keys.js";
import { noiseBytes } from "../../../../helpers/noise-bytes.js";
import { ScriptedDevice } from "../../../../helpers/scripted-device.js";
import { startTestServer, testFleet, type TestServer } from "../../../../helpers/test-server.js";

const files = nodeFiles();
const random = nodeRandom();
const refusedByBroker = { code: 5 };
const refusedCertificate = { code: "CERTIFICATE_REFUSED" };

describe("certificates of devices", () => {
  let server: TestServer;
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "stemma-certificates-"));
    server = await startTestServer({ tls: "own" });
  });
  after(async () => {
    await server.remove();
    await rm(folder, { recursive: true, force: true });
  });

  const pathOf = (device: string): string => join(folder, `${device}.json`);
  async function invite(device: string, more: Partial<OperationInput<"invite">> = {}): Promise<string> {
    const invitation = await server.handle.operations.invite({
      ...{ fleet: testFleet, device, lines: ["line"] },
      ...more,
    });
    const path = join(folder, `${device}.invitation.json`);
    await writeFile(path, JSON.stringify(invitation));
    return path;
  }
  async function enrol(device: string): Promise<Enrolment> {
    const exchange = await invitedExchange({ files, random, path: pathOf(device) }, await invite(device));
    return exchange.take(await exchange.send(await exchange.request()));
  }
  const credentialsOf = (enrolment: Enrolment): Credentials =>
    new Credentials({
      files,
      path: pathOf(enrolment.device),
      enrolment,
      deviceKey: deviceKeyOf(enrolment, undefined),
      clock: { monotonic: () => 0 },
      log: silentLog(),
    });
  /** The device's certificate as the server would have issued it with this end. */
  async function endingAt(enrolment: Enrolment, notAfterMs: number): Promise<Enrolment> {
    const { identity, ...rest } = enrolment;
    assert.ok(identity !== undefined);
    const authority = await openAuthority(await loadKey(files, join(server.home, "server-key.json")), random);
    const known = (await server.handle.operations.device(enrolment)).certificates?.at(-1);
    assert.ok(known !== undefined);
    const { certificate } = await authority.issueForDevice(enrolment, publicKeyInfo(identity.key), {
      serial: known.serial,
      notAfterMs,
    });
    return sealEnrolment({ ...rest, identity: { ...identity, certificate } });
  }

  it("are given for keys that the device makes, and open its connection", async () => {
    assert.match(server.handle.mqttUrl, /^mqtts:/);
    assert.match(server.handle.httpUrl, /^https:/);
    const enrolment = await enrol("van");
    assert.equal(enrolment.token, undefined);
    assert.deepEqual(await loadEnrolment(files, pathOf("van")), enrolment);
    const device = await ScriptedDevice.connect(enrolment, { session: 1 });
    await device.birth();
    const saved = await device.save({ w: noiseBytes(10_000, 1) }, { sequence: 1 });
    await device.announce(saved);
    await device.receipt("released", saved.versionId);
    await device.close();
    const { enrolledBy } = await server.handle.operations.device({ fleet: testFleet, device: "van" });
    assert.doesNotMatch(enrolledBy ?? "", /without token/);
  });

  it("are needed: no certificate, another device's, another authority's open nothing", async () => {
    const [one, two] = [await enrol("one"), await enrol("two")];
    const { identity: _, ...without } = one;
    await assert.rejects(
      ScriptedDevice.connect({ ...without, token: "stemma_guessed" }, { session: 1 }),
      refusedByBroker,
    );
    await assert.rejects(
      ScriptedDevice.connect({ ...one, identity: two.identity }, { session: 1 }),
      refusedByBroker,
    );
    const foreign = await openAuthority(generateKey(random), random);
    const key = generateConnectionKey();
    const { certificate } = await foreign.issueForDevice(one, publicKeyInfo(key), { atMs: Date.now() });
    await assert.rejects(
      ScriptedDevice.connect({ ...one, identity: { certificate, key, issuedAtMs: 0 } }, { session: 1 }),
      refusedByBroker,
    );
    await (await ScriptedDevice.connect(one, { session: 1 })).close();
  });

  it("resume no TLS session", async () => {
    const enrolment = await enrol("resumed");
    const { port } = new URL(server.handle.mqttUrl.replace("mqtts:", "https:"));
    const { certificate: cert, key } = enrolment.identity ?? { certificate: "", key: "" };
    const open = async (session?: Buffer): Promise<{ sessions: Buffer[]; reused: boolean }> =>
      new Promise((resolve, reject) => {
        const sessions: Buffer[] = [];
        const options = { port: Number(port), host: "127.0.0.1", rejectUnauthorized: false, cert, key };
        const socket = connect({ ...options, ...(session && { session }) });
        socket.on("session", (each) => sessions.push(each));
        socket.on("error", reject);
        let reused = true;
        socket.on("secureConnect", () => {
          reused = socket.isSessionReused();
          // A server that gives tickets sends them before the first answer; this one is refused.
          socket.end(Buffer.from([0x30, 0x00]));
        });
        socket.on("close", () => {
          resolve({ sessions, reused });
        });
      });
    const first = await open();
    const second = await open(first.sessions.at(-1));
    assert.equal(second.reused, false);
  });

  it("are asked for again by the same keys, and by no others: an invitation is used once", async () => {
    const file = await invite("once");
    const exchange = await invitedExchange({ files, random, path: pathOf("once") }, file);
    const request = await exchange.request();
    await exchange.send(request); // The answer is lost; the agent starts again.
    const again = await invitedExchange({ files, random, path: pathOf("once") }, file);
    assert.deepEqual(await again.request(), request);
    const enrolment = await again.take(await again.send(request));
    await (await ScriptedDevice.connect(enrolment, { session: 1 })).close();
    const thief = await invitedExchange({ files, random, path: pathOf("thief") }, file);
    await assert.rejects(thief.send(await thief.request()), refusedCertificate);
    const { certificates } = await server.handle.operations.device({ fleet: testFleet, device: "once" });
    assert.equal(certificates?.length, 1);
  });

  it("are not given for a changed or ended invitation, or one of another server", async () => {
    const file = await invite("changed");
    const invitation = JSON.parse(await readFile(file, "utf8")) as { device: string };
    await writeFile(file, JSON.stringify({ ...invitation, device: "another" }));
    await assert.rejects(invitedExchange({ files, random, path: pathOf("changed") }, file), {
      code: "ENROLMENT_INVALID",
    });
    const other = await startTestServer({ tls: "own" });
    try {
      const exchange = await invitedExchange({ files, random, path: pathOf("moved") }, await invite("moved"));
      const request = await exchange.request();
      await assert.rejects(other.handle.operations.certify({ request }), refusedCertificate);
    } finally {
      await other.remove();
    }
  });

  it("are given for a request that proves both keys alone", async () => {
    const subject = { fleet: testFleet, device: "proof", generation: 1 };
    const [key, connectionKey] = [generateKey(random), generateConnectionKey()];
    const request = await makeRequest(subject, key, connectionKey);
    assert.equal((await readRequest(request, subject)).devicePublicKey, key.publicKey);
    for (const other of [{ device: "proof2" }, { fleet: "other" }, { generation: 2 }])
      await assert.rejects(readRequest(request, { ...subject, ...other }), refusedCertificate);
    const bytes = Buffer.from(request, "base64");
    for (let at = 0; at < bytes.length; at += 7) {
      const changed = Buffer.from(bytes);
      changed[at] = (changed[at] ?? 0) ^ 1;
      await assert.rejects(readRequest(changed.toString("base64"), subject), refusedCertificate);
    }
    await assert.rejects(readRequest("", subject), refusedCertificate);
    await assert.rejects(readRequest(Buffer.alloc(100_000).toString("base64"), subject), refusedCertificate);
  });

  it("are not taken from an answer that was changed, or that answers another request", async () => {
    const exchange = await invitedExchange({ files, random, path: pathOf("tamper") }, await invite("tamper"));
    const answer = (await exchange.send(await exchange.request())) as Record<string, unknown>;
    const foreign = await openAuthority(generateKey(random), random);
    const invalid = { code: "ENROLMENT_INVALID" };
    await assert.rejects(exchange.take({ ...answer, authorities: [foreign.certificate] }), invalid);
    await assert.rejects(exchange.take({ ...answer, issuedAtMs: 0 }), invalid);
    await assert.rejects(exchange.take(undefined), invalid);
    const next = await invitedExchange({ files, random, path: pathOf("tamper2") }, await invite("tamper2"));
    await next.request();
    await assert.rejects(next.take(answer), invalid);
    await exchange.take(answer);
  });

  it("are renewed for a new key; the one before is good until the next renewal", async () => {
    const enrolment = await enrol("renewed");
    const second = await credentialsOf(enrolment).renew();
    assert.notEqual(second.identity?.key, enrolment.identity?.key);
    assert.deepEqual(await loadEnrolment(files, pathOf("renewed")), second);
    await (await ScriptedDevice.connect(enrolment, { session: 1 })).close();
    await (await ScriptedDevice.connect(second, { session: 2 })).close();
    // Journals are not made longer by a device that renews all the time.
    await assert.rejects(credentialsOf(second).renew(), { code: "QUOTA_EXCEEDED" });
  });

  it("are not given over MQTT to a device that states the request of another", async () => {
    const [liar, other] = [await enrol("liar"), await enrol("other")];
    const stolen = await credentialsOf(other).request();
    const device = await ScriptedDevice.connect(liar, { session: 1 });
    await device.birth();
    const { operations } = server.handle;
    const own = await credentialsOf(liar).request();
    for (const lie of [stolen, { ...own, renewal: { ...own.renewal, device: "other" } }, {}, null]) {
      const answered = (async () => {
        const command = await device.next("command", { name: "certificate-request" });
        const { correlation } = device.envelopes.find(({ body }) => body === command) ?? { correlation: "" };
        await device.send({ type: "commandResult", code: "", json: JSON.stringify(lie) }, correlation);
      })();
      await assert.rejects(operations.renewDevice({ fleet: testFleet, device: "liar" }), (error) =>
        ["CERTIFICATE_REFUSED", "ENROLMENT_INVALID"].includes((error as { code: string }).code),
      );
      await answered;
    }
    await device.close();
    for (const name of ["liar", "other"]) {
      const { certificates } = await operations.device({ fleet: testFleet, device: name });
      assert.equal(certificates?.length, 1);
    }
  });

  it("that have expired renew, and open nothing else", async () => {
    const expired = await endingAt(await enrol("parked"), Date.now() - 1000);
    await assert.rejects(ScriptedDevice.connect(expired, { session: 1 }), refusedByBroker);
    const renewed = await credentialsOf(expired).renew();
    await (await ScriptedDevice.connect(renewed, { session: 1 })).close();
  });

  it("that were revoked end the connection, and neither connect nor renew", async () => {
    const enrolment = await enrol("revoked");
    const device = await ScriptedDevice.connect(enrolment, { session: 1 });
    await device.birth();
    await server.handle.operations.revoke({ fleet: testFleet, device: "revoked" });
    await device.closed();
    await assert.rejects(ScriptedDevice.connect(enrolment, { session: 2 }), refusedByBroker);
    await assert.rejects(credentialsOf(enrolment).renew(), refusedCertificate);
    // An invitation gives it a new identity, which the old one does not share.
    const next = await invitedExchange({ files, random, path: pathOf("revoked") }, await invite("revoked"));
    const again = await next.take(await next.send(await next.request()));
    assert.equal(again.generation, 2);
    await assert.rejects(ScriptedDevice.connect(enrolment, { session: 3 }), refusedByBroker);
    await (await ScriptedDevice.connect(again, { session: 1 })).close();
  });

  it("stay good when the server starts again with a new certificate of its own", async () => {
    const enrolment = await enrol("steady");
    await server.restart();
    const moved = sealEnrolment({ ...enrolment, mqtt: [server.handle.mqttUrl] });
    await (await ScriptedDevice.connect(moved, { session: 1 })).close();
    const socket = await credentialsOf(moved).dial(server.handle.mqttUrl);
    socket.destroy();
  });

  it("of another server are refused by the device before it sends a byte", async () => {
    const enrolment = await enrol("careful");
    const other = await startTestServer({ tls: "own" });
    try {
      await assert.rejects(credentialsOf(enrolment).dial(other.handle.mqttUrl), refusedCertificate);
    } finally {
      await other.remove();
    }
  });
});
