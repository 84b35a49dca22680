/**
 * Models that travel coded against versions that device and server share, with a real agent and a real
 * server: fewer bytes and the same model, and raw transfers where they share nothing.
 */
import assert from "node:assert/strict";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { readCurrent } from "../../../agent/current/read-current.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import {
  ofBase,
  testLine,
  isOfVersion,
  startAgentTestEnvironment,
  type RunningAgent,
  type AgentTestEnvironment,
} from "../../helpers/agent-test-environment.js";
import { fakeTraining } from "../../helpers/agent-fixtures.js";
import { testFleet } from "../../helpers/test-server.js";

const full = { train: fakeTraining({ full: true }).train };

interface Recorded {
  readonly versionId: Hash;
  readonly wireBytes: number;
  readonly tensorBytes: number;
}

/** Trains once and resolves with the bytes that the server counted. */
async function trainOnce({ server }: AgentTestEnvironment, { handle, log }: RunningAgent): Promise<Recorded> {
  const stop = new AbortController();
  const events = server.handle.operations.events(stop.signal);
  const training = handle.train(testLine);
  const counted = (async () => {
    for await (const event of events)
      if (event.event === "recorded" && event.versionId === (await training).versionId) return event;
    return undefined;
  })();
  const { versionId } = await training;
  await log.until("released", 1, isOfVersion(versionId));
  const recorded = await counted;
  stop.abort();
  assert.ok(recorded !== undefined);
  return { versionId, wireBytes: recorded.wireBytes, tensorBytes: recorded.tensorBytes };
}

async function started(
  environment: AgentTestEnvironment,
  coding: "auto" | "always" | "never",
  metered = false,
): Promise<RunningAgent> {
  const agent = await environment.startAgent({
    profile: { "link.coding": coding, "link.metered": metered },
    ports: full,
  });
  await agent.log.until("activated", 1, ofBase);
  return agent;
}

describe("coded transfers", () => {
  it("moves a chain of fine-tunes in fewer bytes than raw, each recovered bit for bit", async (t) => {
    const environment = await startAgentTestEnvironment(t, { units: 8_000 });
    const agent = await started(environment, "always");
    for (let round = 0; round < 3; round++) {
      const { versionId, wireBytes, tensorBytes } = await trainOnce(environment, agent);
      assert.ok(wireBytes < 0.8 * tensorBytes, `${wireBytes} bytes on the wire for ${tensorBytes}`);
      await environment.server.handle.operations.verify({ fleet: testFleet, model: versionId });
    }
    assert.deepEqual(
      agent.log.events.filter(({ event }) => event === "upload-not-coded" || event === "upload-failed"),
      [],
    );
    assert.deepEqual(
      (await readdir(join(environment.home, "transfers"))).filter((name) => name.endsWith(".coded")),
      [],
      "coded streams are gone when they are sent",
    );
  });

  it("sends raw where the profile is set to never, or where the server decodes nothing", async (t) => {
    const environment = await startAgentTestEnvironment(t, {
      units: 8_000,
      server: { limits: { coding: false } },
    });
    const { wireBytes, tensorBytes } = await trainOnce(environment, await started(environment, "always"));
    assert.ok(wireBytes > tensorBytes, "a server without coding asks for raw");
    const other = await startAgentTestEnvironment(t, { units: 8_000 });
    const never = await trainOnce(other, await started(other, "never"));
    assert.ok(never.wireBytes > never.tensorBytes, "a device that does not code sends raw");
  });

  it("sends one device's model to another, coded against the base that both have, and raw where the profile is set to never", async (t) => {
    const environment = await startAgentTestEnvironment(t, { units: 12_000 });
    const { versionId } = await trainOnce(environment, await started(environment, "never"));
    const { name, version } = await environment.server.handle.operations.model({
      fleet: testFleet,
      model: versionId,
    });
    const moved: number[] = [];
    for (const [device, coding] of [
      ["v2", "auto"],
      ["v3", "never"],
    ] as const) {
      const enrolment = await environment.server.enroll(device, [testLine]);
      const home = await mkdtemp(join(tmpdir(), "stemma-agent-"));
      t.after(() => rm(home, { recursive: true, force: true }));
      await environment.server.handle.operations.assign({
        fleet: testFleet,
        device,
        line: testLine,
        model: "base",
      });
      const other = await environment.startAgent({
        home,
        enrolment,
        profile: { "link.coding": coding },
        ports: full,
      });
      await other.log.until("activated", 1, ofBase);
      await environment.server.handle.operations.assign({
        fleet: testFleet,
        device,
        line: testLine,
        model: `${name}:${version}`,
      });
      const { fields } = await other.log.until("downloaded", 1, isOfVersion(versionId));
      await other.log.until("activated", 1, isOfVersion(versionId));
      moved.push(Number(fields["bytes"]) / Number(fields["rawBytes"]));
      const current = await readCurrent(home, testLine);
      for (const file of Object.keys(current.manifest.files)) await current.read(file);
      assert.equal(current.manifest.versionId, versionId);
      assert.equal(other.log.count("download-not-decoded"), 0);
    }
    assert.ok((moved[0] as number) < 0.5, `${moved[0]} of the raw bytes`);
    assert.equal(moved[1], 1);
    const copies = join(environment.server.home, "fleets", testFleet, "spool-out");
    assert.equal((await readdir(copies)).length, 1, "the coded copy is kept for devices that come next");
  });

  it("decides to code on a metered link", async (t) => {
    const environment = await startAgentTestEnvironment(t, { units: 12_000 });
    const agent = await started(environment, "auto", true);
    const { versionId, wireBytes, tensorBytes } = await trainOnce(environment, agent);
    assert.ok(wireBytes < 0.8 * tensorBytes, `${wireBytes} of ${tensorBytes}`);
    assert.match(
      String((await agent.log.until("coding-decided", 1, isOfVersion(versionId))).fields["text"]),
      /^coded: the link is metered/,
    );
  });
});
