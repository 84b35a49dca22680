// Devices of a batch at an external broker that asks them for certificates of the server's authority, as mosquitto
// does with the settings of docs/reference/server-json.md: it takes the certificate's CN as user name and client id.
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it, type TestContext } from "node:test";
import { createServer, type TLSSocket } from "node:tls";
import { Aedes, type Client } from "aedes";
import mqtt from "mqtt";
import { invitedExchange } from "../../../../../agent/identity/exchanges.js";
import { startAgent } from "../../../../../agent/main.js";
import { nodeRandom } from "../../../../../shared/adapters/node-ports.js";
import { nodeFiles } from "../../../../../shared/files/node-files.js";
import type { Enrolment } from "../../../../../shared/trust/enrolment.js";
import { testProfile, WaitableLog } from "../../../../helpers/agent-fixtures.js";
import { makeCertificate } from "../../../../helpers/test-certificate.js";
import { startTestServer, testFleet as fleet } from "../../../../helpers/test-server.js";

const username = "server.stemma";
const hourMs = 3_600_000;

/** A broker whose devices show certificates; the server comes with its user name. */
async function certificateBroker(
  t: TestContext,
  { cert, key }: { readonly cert: string; readonly key: string },
) {
  const users = new WeakMap<Client, string>();
  const isOf = (client: Client | null, topic: string): boolean => {
    const user = client === null ? "" : users.get(client);
    return user === username || topic.startsWith(`stemma/v1/${fleet}/${user}/`);
  };
  const aedes = await Aedes.createBroker({
    authenticate: (client, user, _password, done) => {
      const socket = client.conn as TLSSocket;
      const { CN } = socket.authorized ? socket.getPeerCertificate().subject : {};
      users.set(client, user === username ? user : String(CN));
      done(null, user === username || (socket.authorized && client.id === `${fleet}:${String(CN)}`));
    },
    authorizePublish: (client, { topic }, done) => {
      done(isOf(client, topic) ? null : new Error("refused"));
    },
    authorizeSubscribe: (client, subscription, done) => {
      done(null, isOf(client, subscription.topic) ? subscription : null);
    },
  });
  const tls = { cert, key, requestCert: true, rejectUnauthorized: false };
  const server = createServer(tls, (socket) => {
    socket.on("error", () => undefined);
    aedes.handle(socket);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(async () => {
    await new Promise<void>((resolve) => {
      aedes.close(resolve);
    });
    server.close();
  });
  return {
    url: `mqtts://127.0.0.1:${(server.address() as AddressInfo).port}`,
    /** Trusts the devices of this authority from now on. */
    trust: (ca: string) => {
      server.setSecureContext({ cert, key, ca });
    },
  };
}

it("enrols a batch's devices, which connect with their certificates and cannot take each other's names", async (t) => {
  const made = makeCertificate();
  if (made === undefined) {
    t.skip("openssl is not on this machine, so the broker has no certificate");
    return;
  }
  const folder = await mkdtemp(join(tmpdir(), "stemma-broker-batch-"));
  const caFile = join(folder, "broker.pem");
  await writeFile(caFile, made.cert);
  const external = await certificateBroker(t, made);
  const broker = { url: external.url, caFile, username, deviceCertificates: true };
  const server = await startTestServer({ tls: "own", broker, fleets: [fleet, "trucks"] });
  t.after(async () => {
    await server.remove();
    await rm(folder, { recursive: true, force: true });
  });
  const { operations } = server.handle;
  const { authorities } = await operations.addresses();
  external.trust(authorities?.[0] ?? assert.fail("the server has no authority"));
  const create = async (of: string, batch: string, more: object = {}): Promise<string> => {
    const body = { fleet: of, batch, count: 2, validMs: hourMs, lines: ["line"], ...more };
    const file = join(folder, `${batch}.json`);
    await writeFile(file, JSON.stringify(await operations.createBatch(body)));
    return file;
  };
  const enrol = async (file: string, device: string): Promise<Enrolment> => {
    const path = join(folder, device, "enrolment.json");
    await mkdir(join(folder, device), { recursive: true });
    const exchange = await invitedExchange({ files: nodeFiles(), random: nodeRandom(), path }, file, device);
    return exchange.take(await exchange.send(await exchange.request()));
  };
  const file = await create(fleet, "vans");
  const [enrolment] = [await enrol(file, "van-1"), await enrol(file, "van-2")];
  await assert.rejects(enrol(file, "van-3"), { code: "CERTIFICATE_REFUSED" });

  const log = new WaitableLog();
  const config = { format: 1, lines: {} };
  const agent = await startAgent({ home: join(folder, "van-1"), config, profile: { ...testProfile() }, log });
  t.after(() => agent.close());
  await log.until("welcomed");
  const { online, batch } = await operations.device({ fleet, device: "van-1" });
  assert.deepEqual([online, batch], [true, "vans"]);

  const { identity: { certificate: cert, key } = assert.fail("no certificate"), ca = "" } = enrolment;
  const options = { ca, cert, key, reconnectPeriod: 0 };
  for (const taken of ["van-2", username])
    await assert.rejects(mqtt.connectAsync(external.url, { ...options, clientId: `${fleet}:${taken}` }));

  // The broker sees no fleet: another one cannot have the name, by no way to enrol it.
  const others = await create("trucks", "trucks");
  await assert.rejects(enrol(others, "van-2"), { code: "ENROLMENT_INVALID" });
  await rm(join(folder, "van-2"), { recursive: true });
  await assert.rejects(enrol(others, "van-2"), { code: "NAME_INVALID" });
  // Nobody here could judge the certificate of an authority of the owner.
  await assert.rejects(create(fleet, "owned", { authority: "pki" }), { code: "CONFIG_INVALID" });

  // A broker that asks for no certificates gets no batch.
  await server.restart({ broker: { ...broker, deviceCertificates: false } });
  const body = { fleet, batch: "buses", count: 2, validMs: hourMs, lines: ["line"] };
  await assert.rejects(server.handle.operations.createBatch(body), { code: "CONFIG_INVALID" });
  // Names that two fleets have from before would be one at the broker.
  await server.handle.operations.enroll({ fleet: "trucks", device: "van-1", lines: ["line"] });
  await assert.rejects(server.restart({ deviceTokens: true }), { code: "CONFIG_INVALID" });
});
