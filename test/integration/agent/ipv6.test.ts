/** A network that has IPv6 alone: addresses in brackets, from the invitation to the recovered model. */
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { networkInterfaces, tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { invitedExchange } from "../../../agent/identity/exchanges.js";
import { startAgent } from "../../../agent/main.js";
import { connectOperations } from "../../../server/interface/http/client.js";
import { readHttpToken } from "../../../server/interface/http/token.js";
import { nodeClock, nodeRandom } from "../../../shared/adapters/node-ports.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import { fakeTraining, testProfile, WaitableLog } from "../../helpers/agent-fixtures.js";
import { importBase, isOfVersion, ofBase, testLine } from "../../helpers/agent-test-environment.js";
import { runStemmaWith } from "../../helpers/run-stemma-here.js";
import { startTestServer, tensorBytes, testFleet } from "../../helpers/test-server.js";

const hasIpv6 = Object.values(networkInterfaces()).some((addresses) =>
  addresses?.some(({ address }) => address === "::1"),
);

test("a fleet works over IPv6 alone", { skip: !hasIpv6 && "this machine has no ::1" }, async (t) => {
  const server = await startTestServer({ tls: "own", host: "::1" });
  const home = await mkdtemp(join(tmpdir(), "stemma-ipv6-"));
  t.after(async () => {
    await server.remove();
    await rm(home, { recursive: true, force: true });
  });
  const { mqttUrl, httpUrl, operations } = server.handle;
  for (const url of [mqttUrl, httpUrl]) assert.match(url, /^(mqtts|https):\/\/\[::1\]:\d+$/);
  await importBase(server, "base", "1", 3);
  const of = { fleet: testFleet, device: "van" };
  const invitation = join(home, "van.invitation.json");
  const invited = { ...of, lines: [testLine], initial: { [testLine]: "base" } };
  await writeFile(invitation, JSON.stringify(await operations.invite(invited)));
  const ports = { files: nodeFiles(), random: nodeRandom(), path: join(home, "enrolment.json") };
  const exchange = await invitedExchange(ports, invitation);
  await exchange.take(await exchange.send(await exchange.request()));

  const log = new WaitableLog();
  const lines = { [testLine]: { recipe: "fake", dataset: { reader: "images-generated" }, schedule: {} } };
  const agent = await startAgent(
    { home, config: { format: 1, lines }, profile: { ...testProfile() }, log },
    { train: fakeTraining().train, checkRecipe: () => undefined, clock: nodeClock() },
  );
  try {
    await log.until("activated", 1, ofBase);
    const { versionId } = await agent.train(testLine);
    await log.until("released", 1, isOfVersion(versionId));

    const authority = await readFile(join(server.home, "authority.pem"), "utf8");
    const token = await readHttpToken(server.home);
    const remote = connectOperations({ url: httpUrl, token, authority });
    assert.equal((await remote.device(of)).online, true);
    assert.deepEqual(await tensorBytes(remote, versionId), await tensorBytes(operations, versionId));
    await remote.close();
    const environment = { STEMMA_TOKEN: token, STEMMA_CA: join(server.home, "authority.pem") };
    const args = ["device", "list", "--server", httpUrl, "--fleet", testFleet];
    const { status, stdout, stderr } = await runStemmaWith(args, environment);
    assert.equal(status, 0, stderr);
    assert.match(stdout, /^van +online/m);
  } finally {
    await agent.close();
  }
});
