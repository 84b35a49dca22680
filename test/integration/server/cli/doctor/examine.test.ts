/**
 * What `doctor` reports about a home (one with fleets, none, a file in its place) and about its server.json.
 */
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { examine } from "../../../../../server/cli/doctor/examine.js";
import { examineServer } from "../../../../../server/cli/doctor/examine-server.js";
import { plainBroker } from "../../../../helpers/plain-broker.js";
import { startTestServer, testFleet } from "../../../../helpers/test-server.js";

const homeOf = async (home: string): Promise<{ readonly state: string; readonly found: string }> => {
  const finding = (await examine({ home })).find(({ what }) => what === "home");
  assert.ok(finding);
  return finding;
};

test("a home is examined with all its fleets, through the server that holds it", async () => {
  const server = await startTestServer();
  try {
    const { state, found } = await homeOf(server.home);
    assert.deepEqual([state, found.includes(`fleet ${testFleet} has 0 versions`)], ["good", true], found);
  } finally {
    await server.remove();
  }
});

test("a missing home is accepted, a file in its place is reported", async () => {
  const folder = await mkdtemp(join(tmpdir(), "stemma-doctor-"));
  try {
    assert.equal((await homeOf(join(folder, "none"))).state, "good");
    await writeFile(join(folder, "file"), "no home");
    assert.equal((await homeOf(join(folder, "file"))).state, "wrong");
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

test("server.json is examined: its keys, and the files and the broker that it names", async () => {
  const home = await mkdtemp(join(tmpdir(), "stemma-doctor-"));
  const broker = await plainBroker();
  const findings = async (file: object, question = examineServer): Promise<Record<string, string>> => {
    await writeFile(join(home, "server.json"), JSON.stringify({ format: 1, ...file }));
    return Object.fromEntries((await question({ home })).map(({ what, state }) => [what, state]));
  };
  try {
    assert.equal((await findings({ listen: { prot: 1 } }, examine))["server.json"], "wrong");
    const missing = { certFile: "none.pem", keyFile: "none.key" };
    assert.equal((await findings({ listen: { tls: missing } }))["server.json"], "wrong");
    assert.equal((await findings({ listen: { host: "0.0.0.0" } }))["server.json"], "warning");
    const external = { broker: { kind: "external", url: broker.url } };
    const reachable = await findings(external);
    assert.deepEqual([reachable["server.json"], reachable["external broker"]], ["good", "good"]);
    await broker.close();
    assert.equal((await findings(external))["external broker"], "wrong");
  } finally {
    await rm(home, { recursive: true, force: true });
  }
});
