// A real agent with a certificate of its owner's authority, whose files the owner replaces while it runs.
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { invitedExchange } from "../../../agent/identity/exchanges.js";
import { OwnerCertificate } from "../../../agent/identity/owner-certificate.js";
import { startAgent, type AgentHandle } from "../../../agent/main.js";
import { nodeRandom, silentLog } from "../../../shared/adapters/node-ports.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { fakeTraining, testProfile, WaitableLog } from "../../helpers/agent-fixtures.js";
import {
  makeAuthority,
  makeDeviceCertificate,
  makeRevocationList,
  type TestCertificate,
} from "../../helpers/test-pki.js";
import { startTestServer, testFleet } from "../../helpers/test-server.js";

const files = nodeFiles();
const fleet = testFleet;
const device = "v1";

test("an agent takes a new certificate from its owner's file with the next connection", async (t) => {
  const server = await startTestServer({ tls: "own" });
  const { operations } = server.handle;
  const home = await mkdtemp(join(tmpdir(), "stemma-agent-"));
  const running: AgentHandle[] = [];
  t.after(async () => {
    for (const handle of running) await handle.close();
    await server.remove();
    await rm(home, { recursive: true, force: true });
  });
  const root = await makeAuthority("root");
  await operations.addAuthority({ fleet, authority: "oem", certificates: root.certificate });
  const settings = { file: join(home, "device.crt"), key: join(home, "device.key") };
  const write = async ({ certificate, key }: TestCertificate): Promise<void> => {
    await writeFile(settings.key, key);
    await writeFile(settings.file, certificate);
  };
  const first = await makeDeviceCertificate(root, device);
  await write(first);
  const invitation = await operations.invite({ fleet, device, lines: ["cam"], authority: "oem" });
  await writeFile(join(home, "invitation.json"), JSON.stringify(invitation));
  const path = join(home, "enrolment.json");
  const ownerCertificate = new OwnerCertificate({ files, settings, log: silentLog() });
  const exchange = await invitedExchange(
    { files, random: nodeRandom(), path, ownerCertificate },
    join(home, "invitation.json"),
  );
  await exchange.take(await exchange.send(await exchange.request()));
  assert.doesNotMatch(await readFile(path, "utf8"), /PRIVATE KEY/);

  const log = new WaitableLog();
  const start = (config: object): Promise<AgentHandle> =>
    startAgent(
      { home, config: { format: 1, ...config }, profile: { ...testProfile({}) }, log },
      { train: fakeTraining().train, checkRecipe: () => undefined },
    );
  await assert.rejects(start({}), { code: "CONFIG_INVALID" });
  running.push(await start({ certificate: settings }));
  await log.until("welcomed");

  // Its authority gives it another one, and takes the first back.
  const next = await makeDeviceCertificate(root, device);
  await write(next);
  const list = await makeRevocationList(root, { serials: [first.serial] });
  const [taken, welcomed] = [log.next("certificate-taken"), log.next("welcomed")];
  await operations.takeRevocationList({ fleet, authority: "oem", list });
  await taken;
  await welcomed;
  const { certificates } = await operations.device({ fleet, device });
  assert.deepEqual(
    certificates?.map(({ serial }) => serial),
    [first.serial, next.serial],
  );
  assert.equal(log.count("certificate-renewed"), 0);
});

test("an agent that was not enrolled with its owner's certificate does not start with one", async (t) => {
  const server = await startTestServer();
  const home = await mkdtemp(join(tmpdir(), "stemma-agent-"));
  t.after(async () => {
    await server.remove();
    await rm(home, { recursive: true, force: true });
  });
  await writeFile(join(home, "enrolment.json"), JSON.stringify(await server.enroll(device, ["cam"])));
  const settings = { file: join(home, "device.crt"), key: join(home, "device.key") };
  await assert.rejects(
    startAgent(
      {
        home,
        config: { format: 1, certificate: settings },
        profile: { ...testProfile({}) },
        log: new WaitableLog(),
      },
      { train: fakeTraining().train, checkRecipe: () => undefined },
    ),
    { code: "CONFIG_INVALID" },
  );
});
