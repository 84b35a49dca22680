// A real agent whose key is in a program: enrolment, session, renewal; and what a copied file is good for.
import assert from "node:assert/strict";
import { chmod, mkdtemp, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { invitedExchange } from "../../../agent/identity/exchanges.js";
import { openProgramKey } from "../../../agent/identity/program-key.js";
import { startAgent } from "../../../agent/main.js";
import { nodeClock, nodeRandom } from "../../../shared/adapters/node-ports.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { generateKey, keyOfSeed } from "../../../shared/trust/keys.js";
import { loadEnrolment, sealEnrolment } from "../../../shared/trust/enrolment.js";
import { fakeTraining, testProfile, WaitableLog } from "../../helpers/agent-fixtures.js";
import { ScriptedDevice } from "../../helpers/scripted-device.js";
import { signingProgramText } from "../../helpers/signing-program.js";
import { startTestServer, testFleet } from "../../helpers/test-server.js";

const files = nodeFiles();
const device = "v1";
const seed = "7c".repeat(32);

test("an agent whose key a program has enrols, connects and renews; its copied file opens no session", async (t) => {
  const server = await startTestServer({ tls: "own" });
  const home = await realpath(await mkdtemp(join(tmpdir(), "stemma-agent-key-")));
  t.after(async () => {
    await server.remove();
    await rm(home, { recursive: true, force: true });
  });
  const program = join(home, "sign.mjs");
  await writeFile(program, `#!${process.execPath}\n${signingProgramText(seed)}`);
  await chmod(program, 0o700);
  const settings = { exec: [program], publicKey: keyOfSeed(seed).publicKey, timeoutSeconds: 300 };
  const { signal } = new AbortController();
  const owner = process.getuid?.();
  const parts = { settings, home, files, clock: nodeClock(), configFile: undefined, owner, signal };
  const deviceKey = await openProgramKey(parts);

  const invitation = await server.handle.operations.invite({ fleet: testFleet, device, lines: ["cam"] });
  const file = join(home, "invitation.json");
  await writeFile(file, JSON.stringify(invitation));
  const path = join(home, "enrolment.json");
  const exchange = await invitedExchange({ files, random: nodeRandom(), path, deviceKey }, file);
  const enrolment = await exchange.take(await exchange.send(await exchange.request()));
  assert.equal(enrolment.deviceSeed, undefined);
  assert.doesNotMatch(await readFile(path, "utf8"), new RegExp(seed));

  const profile = { ...testProfile({}) };
  const ports = { train: fakeTraining().train, checkRecipe: () => undefined };
  // Without the program the agent says what it needs, and does not start.
  await assert.rejects(startAgent({ home, config: { format: 1 }, profile, log: new WaitableLog() }, ports), {
    code: "CONFIG_INVALID",
    message: /deviceKey/,
  });
  const log = new WaitableLog();
  const agent = await startAgent({ home, config: { format: 1, deviceKey: settings }, profile, log }, ports);
  await log.until("welcomed");
  const { operations } = server.handle;
  await operations.renewDevice({ fleet: testFleet, device });
  await agent.close();
  const renewed = await loadEnrolment(files, path);
  assert.notEqual(renewed.identity?.key, enrolment.identity?.key);
  assert.equal(renewed.devicePublicKey, settings.publicKey);

  // A thief has the certificate and the key of its connection, and signs with a key of its own.
  const other = generateKey(nodeRandom());
  const stolen = sealEnrolment({ ...renewed, deviceSeed: other.seed, devicePublicKey: other.publicKey });
  await assert.rejects(ScriptedDevice.connect(stolen, { session: 1_000 }), { code: 5 });
});
