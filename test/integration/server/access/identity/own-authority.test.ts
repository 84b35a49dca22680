// Devices with certificates of an authority of the fleet's owner, at a real server: who gets in, and who is kept out.
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { Credentials } from "../../../../../agent/identity/credentials.js";
import { deviceKeyOf } from "../../../../../agent/identity/device-key.js";
import { invitedExchange, type CertificateExchange } from "../../../../../agent/identity/exchanges.js";
import { OwnerCertificate } from "../../../../../agent/identity/owner-certificate.js";
import type { OperationInput } from "../../../../../server/interface/api/server-operations.js";
import { openAuthority } from "../../../../../server/access/identity/authority.js";
import { openNodeHome } from "../../../../../server/storage/repository/node-home.js";
import { rotateServerKey } from "../../../../../server/storage/repository/rotate-key.js";
import { startServer } from "../../../../../server/main.js";
import { nodeRandom, silentLog } from "../../../../../shared/adapters/node-ports.js";
import { nodeFiles } from "../../../../../shared/files/node-files.js";
import type { CertificateRequest } from "../../../../../shared/trust/certificates/certificate-exchange.js";
import { publicKeyInfo } from "../../../../../shared/trust/certificates/connection-key.js";
import { loadEnrolment, sealEnrolment, type Enrolment } from "../../../../../shared/trust/enrolment.js";
import { loadKey } from "../../../../../shared/trust/keys.js";
import { ScriptedDevice } from "../../../../helpers/scripted-device.js";
import {
  makeAuthority,
  makeDeviceCertificate,
  makeRevocationList,
  newSerial,
  type DeviceOptions,
  type TestAuthority,
  type TestCertificate,
} from "../../../../helpers/test-pki.js";
import { startTestServer, testFleet, type TestServer } from "../../../../helpers/test-server.js";

const files = nodeFiles();
const random = nodeRandom();
const fleet = testFleet;
const byBroker = { code: 5 };
const refused = { code: "CERTIFICATE_REFUSED" };
const dayMs = 86_400_000;

describe("an authority of the fleet's owner", () => {
  let server: TestServer;
  let folder: string;
  let root: TestAuthority;
  let issuing: TestAuthority;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "stemma-own-authority-"));
    server = await startTestServer({ tls: "own" });
    root = await makeAuthority("root");
    issuing = await makeAuthority("issuing", root, { pathLength: 0 });
    await operations().addAuthority({ fleet, authority: "oem", certificates: root.certificate });
  });
  after(async () => {
    await server.remove();
    await rm(folder, { recursive: true, force: true });
  });
  const operations = () => server.handle.operations;
  const pathOf = (device: string): string => join(folder, `${device}.json`);
  const issue = (device: string, options: DeviceOptions = {}): Promise<TestCertificate> =>
    makeDeviceCertificate(issuing, device, { between: [issuing], ...options });
  async function owned(device: string, { certificate, key }: TestCertificate): Promise<OwnerCertificate> {
    const settings = { file: join(folder, `${device}.crt`), key: join(folder, `${device}.key`) };
    await writeFile(settings.file, certificate);
    await writeFile(settings.key, key);
    return new OwnerCertificate({ files, settings, log: silentLog() });
  }
  async function exchangeOf(
    device: string,
    made: TestCertificate | undefined,
    more: Partial<OperationInput<"invite">> = { authority: "oem" },
  ): Promise<CertificateExchange> {
    const invitation = await operations().invite({ fleet, device, lines: ["line"], ...more });
    const file = join(folder, `${device}.invitation.json`);
    await writeFile(file, JSON.stringify(invitation));
    const ownerCertificate = made && (await owned(device, made));
    return invitedExchange({ files, random, path: pathOf(device), ownerCertificate }, file);
  }
  async function enrol(device: string, made: TestCertificate, authority = "oem"): Promise<Enrolment> {
    const exchange = await exchangeOf(device, made, { authority });
    return exchange.take(await exchange.send(await exchange.request()));
  }
  const showing = (enrolment: Enrolment, { certificate, key }: TestCertificate): Enrolment => ({
    ...enrolment,
    mqtt: [server.handle.mqttUrl],
    identity: { certificate, key, issuedAtMs: 0 },
  });
  const connect = (enrolment: Enrolment, made: TestCertificate, session: number): Promise<ScriptedDevice> =>
    ScriptedDevice.connect(showing(enrolment, made), { session });
  async function credentialsOf(device: string, made: TestCertificate): Promise<Credentials> {
    const enrolment = await loadEnrolment(files, pathOf(device));
    return new Credentials({
      ...{ files, enrolment, path: pathOf(device), deviceKey: deviceKeyOf(enrolment, undefined) },
      ownerCertificate: await owned(device, made),
      clock: { monotonic: () => 0 },
      log: silentLog(),
    });
  }
  const certificatesOf = async (device: string) =>
    (await operations().device({ fleet, device })).certificates ?? [];

  it("lets in a device that is invited with it, which gets no certificate of the server", async () => {
    const made = await issue("van");
    const enrolment = await enrol("van", made);
    assert.equal(enrolment.identity, undefined);
    assert.equal(enrolment.ownerCertificate?.authority, "oem");
    assert.doesNotMatch(JSON.stringify(enrolment), /PRIVATE KEY/);
    await (await connect(enrolment, made, 1)).close();
    const [known] = await certificatesOf("van");
    assert.deepEqual([known?.authority, known?.serial], ["oem", made.serial]);
    await assert.rejects(operations().renewDevice({ fleet, device: "van" }), { code: "NOT_ALLOWED" });
    // Its authority renews it: the next connection shows another one, which is known from then on.
    const next = await issue("van");
    await (await connect(enrolment, next, 2)).close();
    await (await connect(enrolment, next, 3)).close();
    await (await connect(enrolment, made, 4)).close();
    assert.deepEqual(
      (await certificatesOf("van")).map(({ serial }) => serial),
      [made.serial, next.serial],
    );
  });

  it("is not asked where the invitation does not name it, and has to be where it does", async () => {
    const made = await issue("chosen");
    const invalid = { code: "ENROLMENT_INVALID" };
    await assert.rejects((await exchangeOf("chosen", made, {})).request(), invalid);
    await assert.rejects((await exchangeOf("chosen", undefined)).request(), invalid);
    // A device that lies to itself is refused by the server.
    const withOwned = await (await exchangeOf("chosen", made)).request();
    const { owned: _, ...without } = withOwned;
    await assert.rejects(operations().certify({ request: without }), refused);
    await rm(`${pathOf("chosen")}.keys`);
    const plain = await (await exchangeOf("chosen", undefined, {})).request();
    await assert.rejects(operations().certify({ request: { ...plain, owned: made.certificate } }), refused);
    await assert.rejects(exchangeOf("chosen", made, { authority: "nobody" }), { code: "NOT_FOUND" });
  });

  it("names a device exactly: another device's, one without proof, one of a wrong chain enrol nothing", async () => {
    for (const [name, options] of [
      ["other name", { subject: "CN=van-8" }],
      ["two names", { subject: "CN=liar, CN=van-8" }],
      ["no name", { subject: "O=liar" }],
      ["for a server", { usage: ["1.3.6.1.5.5.7.3.1"] }],
      ["expired", { untilMs: Date.now() - 1000 }],
      ["without what is between", { between: [] }],
    ] as const) {
      const exchange = await exchangeOf("liar", await issue("liar", options));
      await assert.rejects(exchange.send(await exchange.request()), refused, name);
    }
    const longer = await makeAuthority("longer", issuing);
    const below = await makeDeviceCertificate(longer, "liar", { between: [longer, issuing] });
    await assert.rejects(
      (await exchangeOf("liar", below)).request().then((request) => operations().certify({ request })),
      refused,
    );
    // A certificate that somebody read, with a key of their own.
    const exchange = await exchangeOf("liar", await issue("liar"));
    const request = await exchange.request();
    const read = await issue("liar");
    await assert.rejects(operations().certify({ request: { ...request, owned: read.certificate } }), refused);
    assert.equal(
      (await operations().devices({ fleet })).some(({ device }) => device === "liar"),
      false,
    );
    await exchange.take(await exchange.send(request));
  });

  it("stands for no device of another authority, of the server, or of another fleet", async () => {
    const other = await makeAuthority("root");
    await operations().addAuthority({ fleet, authority: "other", certificates: other.certificate });
    const ofOem = await issue("bound");
    const enrolment = await enrol("bound", ofOem);
    const ofOther = await makeDeviceCertificate(other, "bound", { key: ofOem.key });
    await assert.rejects(connect(enrolment, ofOther, 1), byBroker);
    const own = await openAuthority(await loadKey(files, join(server.home, "server-key.json")), random);
    const bySelf = await own.issueForDevice(enrolment, publicKeyInfo(ofOem.key), { atMs: Date.now() });
    await assert.rejects(connect(enrolment, { ...ofOem, ...bySelf }, 1), byBroker);
    // A device that the server gave a certificate.
    const exchange = await exchangeOf("ours", undefined, {});
    const ours = await exchange.take(await exchange.send(await exchange.request()));
    await assert.rejects(connect(ours, await issue("ours"), 1), byBroker);
    await (await ScriptedDevice.connect(ours, { session: 1 })).close();
    // The same name in another fleet: its authority knows of this fleet by the form of its names.
    await operations().addAuthority({
      ...{ fleet: "trucks", authority: "oem", certificates: root.certificate },
      nameForm: "uri:urn:oem:{fleet}:{device}",
    });
    const invitation = await operations().invite({
      fleet: "trucks",
      device: "bound",
      lines: ["line"],
      authority: "oem",
    });
    const file = join(folder, "trucks.invitation.json");
    await writeFile(file, JSON.stringify(invitation));
    const enrolIn = async (made: TestCertificate): Promise<unknown> => {
      const path = join(folder, `${made.serial}.json`);
      const ownerCertificate = await owned(made.serial, made);
      const trucks = await invitedExchange({ files, random, path, ownerCertificate }, file);
      return trucks.send(await trucks.request());
    };
    await assert.rejects(enrolIn(await issue("bound", { uris: [`urn:oem:${fleet}:bound`] })), refused);
    await enrolIn(await issue("bound", { uris: ["urn:oem:trucks:bound"] }));
    await (await connect(enrolment, ofOem, 2)).close();
  });

  it("opens nothing without the device's own key, and nothing of a replaced enrolment", async () => {
    const made = await issue("copied");
    const first = await enrol("copied", made);
    const { deviceSeed, devicePublicKey } = await enrol("keyless", await issue("keyless"));
    const stolen = { ...first, ...(deviceSeed === undefined ? {} : { deviceSeed }), devicePublicKey };
    await assert.rejects(connect(stolen, made, 1), byBroker);
    // Invited again, it comes with the same certificate and a key of its own: the enrolment before is over.
    const invitation = await exchangeOf("copied", made);
    const second = await invitation.take(await invitation.send(await invitation.request()));
    assert.equal(second.generation, 2);
    await assert.rejects(connect(first, made, 2), byBroker);
    await (await connect(second, made, 1)).close();
    assert.equal((await certificatesOf("copied")).length, 1);
  });

  it("counts numbers within an issuer: revoking one device says nothing of another's same number", async () => {
    const other = await makeAuthority("second");
    await operations().addAuthority({ fleet, authority: "second", certificates: other.certificate });
    const serial = newSerial();
    const ofOem = await issue("same-a", { serial });
    const ofSecond = await makeDeviceCertificate(other, "same-b", { serial });
    const a = await enrol("same-a", ofOem);
    const b = await enrol("same-b", ofSecond, "second");
    const connected = await connect(a, ofOem, 1);
    await operations().revoke({ fleet, device: "same-a" });
    await connected.closed();
    await (await connect(b, ofSecond, 1)).close();
    // Invited again, it needs another certificate: the revoked one names no enrolment, so it would fit to any.
    await assert.rejects(enrol("same-a", ofOem), refused);
    await enrol("same-a", await issue("same-a"));
    await assert.rejects(connect(await loadEnrolment(files, pathOf("same-a")), ofOem, 1), byBroker);
    await (await connect(b, ofSecond, 2)).close();
  });

  it("cuts its devices off at once when it is removed, and lets them in when it is there again", async () => {
    const passing = await makeAuthority("passing");
    const add = (replace = false) =>
      operations().addAuthority({ fleet, authority: "passing", certificates: passing.certificate, replace });
    await add();
    await assert.rejects(add(), { code: "NAME_INVALID" });
    const made = await makeDeviceCertificate(passing, "gone");
    const enrolment = await enrol("gone", made, "passing");
    const device = await connect(enrolment, made, 1);
    await device.birth();
    const remove = (dryRun: boolean) => operations().removeAuthority({ fleet, authority: "passing", dryRun });
    assert.deepEqual(await remove(true), { devices: ["gone"] });
    assert.equal(device.isClosed, false);
    await remove(false);
    await device.closed();
    await assert.rejects(connect(enrolment, made, 2), byBroker);
    await assert.rejects(remove(false), { code: "NOT_FOUND" });
    await add();
    await (await connect(enrolment, made, 3)).close();
  });

  it("takes its revocation lists: who is on one is cut off, an older one is refused, who is taken off comes back", async () => {
    const made = await issue("listed");
    const enrolment = await enrol("listed", made);
    const device = await connect(enrolment, made, 1);
    await device.birth();
    const take = async (number: number, serials: readonly string[], issuer = issuing) =>
      operations().takeRevocationList({
        ...{ fleet, authority: "oem" },
        list: `${await makeRevocationList(issuer, { number, serials })}\n${issuing.certificate}`,
      });
    const stranger = await makeAuthority("issuing");
    await assert.rejects(take(9, [made.serial], stranger), refused);
    assert.equal(device.isClosed, false);
    const fifth = {
      ...{ fleet, authority: "oem" },
      list: `${await makeRevocationList(issuing, { number: 5, serials: [made.serial, newSerial()] })}\n${issuing.certificate}`,
    };
    const taken = await operations().takeRevocationList(fifth);
    assert.deepEqual([taken.added, taken.isKnown, taken.devices], [2, false, ["listed"]]);
    const repeated = await operations().takeRevocationList(fifth);
    assert.deepEqual([repeated.added, repeated.isKnown, repeated.devices], [0, true, ["listed"]]);
    await device.closed();
    await assert.rejects(connect(enrolment, made, 2), byBroker);
    await assert.rejects(take(4, []), refused);
    await assert.rejects(take(5, []), refused);
    await assert.rejects(connect(enrolment, made, 3), byBroker);
    await server.restart();
    await assert.rejects(connect(enrolment, made, 4), byBroker);
    assert.equal((await take(6, [])).restored, 2);
    await (await connect(enrolment, made, 5)).close();
    // The root takes back what issued it.
    const { serialNumber } = new (await import("node:crypto")).X509Certificate(issuing.certificate);
    const again = await connect(enrolment, made, 6);
    await take(1, [serialNumber.toLowerCase()], root);
    await again.closed();
    await assert.rejects(connect(enrolment, made, 7), byBroker);
    await take(2, [], root);
    await (await connect(enrolment, made, 8)).close();
    const [shown] = await operations().authorities({ fleet });
    assert.deepEqual(shown?.lists.map(({ number }) => number).sort(), ["2", "6"]);
    assert.deepEqual(shown?.warnings, []);
  });

  it("lets a batch in whose devices have its certificates, and nobody who has the file alone", async () => {
    const made = await operations().createBatch({
      ...{ fleet, batch: "line-1", count: 2, validMs: dayMs, lines: ["line"], authority: "oem" },
    });
    const file = join(folder, "line-1.batch.json");
    await writeFile(file, JSON.stringify(made));
    const ask = async (device: string, certificate?: TestCertificate): Promise<CertificateRequest> => {
      const ownerCertificate = certificate && (await owned(device, certificate));
      const exchange = await invitedExchange(
        { files, random, path: pathOf(device), ownerCertificate },
        file,
        device,
      );
      return exchange.request();
    };
    await assert.rejects(ask("bus-1"), { code: "ENROLMENT_INVALID" });
    const bus = await issue("bus-1");
    const request = await ask("bus-1", bus);
    const { owned: _, ...without } = request;
    await assert.rejects(operations().certify({ request: without }), refused);
    const thief = await ask("bus-2", bus);
    await assert.rejects(operations().certify({ request: thief }), refused);
    const answer = await operations().certify({ request });
    assert.equal(answer.generation, 1);
    assert.deepEqual(
      await operations()
        .certify({ request })
        .then(({ certificate }) => certificate),
      answer.certificate,
    );
    const [batch] = (await operations().batches({ fleet })).filter((each) => each.batch === "line-1");
    assert.deepEqual([batch?.used, batch?.devices, batch?.authority], [1, ["bus-1"], "oem"]);
  });

  it("is not asked by the server to renew: who asks gets the server's keys, and an expired one nothing", async () => {
    const made = await issue("asking");
    await enrol("asking", made);
    const before = await loadEnrolment(files, pathOf("asking"));
    const next = await issue("asking");
    const confirmed = await (await credentialsOf("asking", next)).renew();
    assert.equal(confirmed.ownerCertificate?.authority, before.ownerCertificate?.authority);
    assert.equal((await certificatesOf("asking")).at(-1)?.serial, next.serial);
    const expired = await issue("asking", { untilMs: Date.now() - 1000 });
    await assert.rejects(
      (await credentialsOf("asking", expired)).renew(),
      (error: { code: string; message: string }) =>
        error.code === "CERTIFICATE_REFUSED" && /expired on \d{4}-\d\d-\d\d/.test(error.message),
    );
    await assert.rejects(connect(confirmed, expired, 1), byBroker);
    await (await connect(confirmed, next, 2)).close();
  });

  it("goes on beside the server's own when the server's key changes; both kinds of devices follow", async () => {
    const made = await issue("steady");
    await enrol("steady", made);
    const portOf = (url: string): number => Number(new URL(url.replace("mqtts:", "https:")).port);
    const ports = { mqttPort: portOf(server.handle.mqttUrl), httpPort: portOf(server.handle.httpUrl) };
    await server.handle.close();
    const home = await openNodeHome(server.home);
    try {
      await rotateServerKey(home, { overlapMs: 90 * dayMs });
    } finally {
      await home.close();
    }
    server.handle = await startServer(
      { home: server.home, fleets: [fleet], tls: "own", ...ports },
      silentLog(),
    );
    const before = await loadEnrolment(files, pathOf("steady"));
    const moved = sealEnrolment({ ...before, mqtt: [server.handle.mqttUrl], http: server.handle.httpUrl });
    await writeFile(pathOf("steady"), JSON.stringify(moved));
    (await (await credentialsOf("steady", made)).dial(server.handle.mqttUrl)).destroy();
    const followed = await loadEnrolment(files, pathOf("steady"));
    assert.notEqual(followed.serverPublicKey, before.serverPublicKey);
    assert.deepEqual(followed.formerServerKeys, [before.serverPublicKey]);
    await (await connect(followed, made, 1)).close();
  });
});
