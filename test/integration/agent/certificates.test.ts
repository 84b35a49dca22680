// A real agent with a certificate: whatever its clock shows, and when its certificate has to be renewed.
import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { invitedExchange } from "../../../agent/identity/exchanges.js";
import { startAgent, type AgentHandle } from "../../../agent/main.js";
import { openAuthority } from "../../../server/access/identity/authority.js";
import { nodeClock, nodeRandom } from "../../../shared/adapters/node-ports.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { publicKeyInfo } from "../../../shared/trust/certificates/connection-key.js";
import { loadEnrolment, sealEnrolment, type Enrolment } from "../../../shared/trust/enrolment.js";
import { loadKey } from "../../../shared/trust/keys.js";
import { fakeTraining, testProfile, WaitableLog } from "../../helpers/agent-fixtures.js";
import { startTestServer, testFleet, type TestServer } from "../../helpers/test-server.js";

const files = nodeFiles();
const random = nodeRandom();
const device = "v1";

interface Enrolled {
  readonly server: TestServer;
  readonly home: string;
  readonly path: string;
  start(nowMs?: () => number): Promise<WaitableLog>;
}

async function enrolled(t: TestContext): Promise<Enrolled> {
  const server = await startTestServer({ tls: "own" });
  const home = await mkdtemp(join(tmpdir(), "stemma-agent-"));
  const running: AgentHandle[] = [];
  t.after(async () => {
    for (const handle of running) await handle.close();
    await server.remove();
    await rm(home, { recursive: true, force: true });
  });
  const invitation = await server.handle.operations.invite({ fleet: testFleet, device, lines: ["cam"] });
  const file = join(home, "invitation.json");
  await writeFile(file, JSON.stringify(invitation));
  const path = join(home, "enrolment.json");
  const exchange = await invitedExchange({ files, random, path }, file);
  await exchange.take(await exchange.send(await exchange.request()));
  const start = async (now = Date.now): Promise<WaitableLog> => {
    const log = new WaitableLog();
    running.push(
      await startAgent(
        { home, config: { format: 1 }, profile: { ...testProfile({}) }, log },
        { train: fakeTraining().train, checkRecipe: () => undefined, clock: { ...nodeClock(), now } },
      ),
    );
    return log;
  };
  return { server, home, path, start };
}

/** The device's certificate with another end, as its server would have issued it. */
async function withEnd({ server, path }: Enrolled, notAfterMs: number): Promise<Enrolment> {
  const { identity, ...rest } = await loadEnrolment(files, path);
  const known = (await server.handle.operations.device({ fleet: testFleet, device })).certificates?.at(-1);
  assert.ok(identity !== undefined && known !== undefined);
  const authority = await openAuthority(await loadKey(files, join(server.home, "server-key.json")), random);
  const when = { serial: known.serial, notAfterMs };
  const { certificate } = await authority.issueForDevice(rest, publicKeyInfo(identity.key), when);
  const enrolment = sealEnrolment({ ...rest, identity: { ...identity, certificate } });
  await writeFile(path, JSON.stringify(enrolment));
  return enrolment;
}

for (const [clock, startMs] of [
  ["1970", 0],
  ["the past", Date.UTC(2019, 0, 1)],
  ["2099", Date.UTC(2099, 0, 1)],
] as const)
  test(`an agent whose clock shows ${clock} connects, and renews when its owner asks`, async (t) => {
    const one = await enrolled(t);
    const beginMs = Date.now();
    const log = await one.start(() => startMs + Date.now() - beginMs);
    await log.until("welcomed");
    assert.equal(log.count("certificate-renewed"), 0);
    const before = await loadEnrolment(files, one.path);
    const renewed = await one.server.handle.operations.renewDevice({ fleet: testFleet, device });
    assert.ok(renewed.notAfterMs > Date.now());
    const after = await loadEnrolment(files, one.path);
    assert.notEqual(after.identity?.key, before.identity?.key);
    assert.equal(after.deviceSeed, before.deviceSeed);
  });

test("an agent that does not reach its server over HTTPS has its certificate renewed over MQTT", async (t) => {
  const one = await enrolled(t);
  const { identity } = await withEnd(one, Date.now() + 3_600_000);
  const { http: _, ...withoutHttp } = await loadEnrolment(files, one.path);
  const issued = { ...identity, issuedAtMs: Date.now() - 86_400_000 };
  await writeFile(one.path, JSON.stringify(sealEnrolment({ ...withoutHttp, identity: issued })));
  const log = await one.start();
  await log.until("certificate-due");
  await log.until("certificate-renewed");
  const renewed = await loadEnrolment(files, one.path);
  assert.notEqual(renewed.identity?.key, identity?.key);
  const { certificates } = await one.server.handle.operations.device({ fleet: testFleet, device });
  assert.equal(certificates?.length, 2);
  const { serialNumber } = new X509Certificate(renewed.identity?.certificate ?? "");
  assert.equal(serialNumber.toLowerCase(), certificates[1]?.serial);
});

test("an agent that was parked past the end of its certificate renews it and connects", async (t) => {
  const one = await enrolled(t);
  const expired = await withEnd(one, Date.now() - 1000);
  const log = await one.start();
  await log.until("certificate-renewed");
  await log.until("welcomed");
  assert.notEqual((await loadEnrolment(files, one.path)).identity?.key, expired.identity?.key);
});

test("an agent that was parked past it, and does not reach its server over HTTPS, renews over MQTT", async (t) => {
  const one = await enrolled(t);
  const { http: _, ...expired } = await withEnd(one, Date.now() - 1000);
  await writeFile(one.path, JSON.stringify(sealEnrolment(expired)));
  const log = await one.start();
  await log.until("certificate-renewed");
  await log.until("welcomed");
  assert.notEqual((await loadEnrolment(files, one.path)).identity?.key, expired.identity?.key);
});

test("an agent renews a certificate that ends soon", async (t) => {
  const one = await enrolled(t);
  const { identity } = await withEnd(one, Date.now() + 3_600_000);
  await writeFile(
    one.path,
    JSON.stringify(
      sealEnrolment({
        ...(await loadEnrolment(files, one.path)),
        // Issued long ago.
        identity: { ...identity, issuedAtMs: Date.now() - 86_400_000 },
      }),
    ),
  );
  const first = await one.start();
  await first.until("certificate-renewed");
  const { certificates } = await one.server.handle.operations.device({ fleet: testFleet, device });
  assert.equal(certificates?.length, 2);
  assert.doesNotMatch(await readFile(one.path, "utf8"), /stemma_/);
});
