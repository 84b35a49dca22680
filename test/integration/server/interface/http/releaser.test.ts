/** The role releaser: publishes what the owner's keys signed and rolls that out, and does nothing else. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { OperationDefinition } from "../../../../../server/interface/api/operation.js";
import { operationTable } from "../../../../../server/interface/api/operation-table.js";
import { rightsOfRole } from "../../../../../server/interface/api/rights.js";
import type { ServerOperations } from "../../../../../server/interface/api/server-operations.js";
import { publishedOf } from "../../../../../server/cli/release-choices.js";
import { connectOperations } from "../../../../../server/interface/http/client.js";
import { keyOfSeed } from "../../../../../shared/trust/keys.js";
import { changeText } from "../../../../../shared/trust/releases/change-file.js";
import { unsignedManifest } from "../../../../../shared/trust/releases/manifest.js";
import {
  addRelease,
  defaultValidDays,
  firstChange,
  revokeRelease,
  signChange,
  type ReleaseChange,
} from "../../../../../shared/trust/releases/release-change.js";
import { importBase } from "../../../../helpers/agent-test-environment.js";
import { keysFor } from "../../../../helpers/release-owner.js";
import { startTestServer, testFleet as fleet, type TestServer } from "../../../../helpers/test-server.js";

const seed = "a";
const validity = { nowMs: Date.now(), days: defaultValidDays };
const notAllowed = { code: "NOT_ALLOWED" };

function signed(change: ReleaseChange): { readonly fleet: string; readonly change: string } {
  return { fleet, change: changeText(signChange(change, keyOfSeed(seed.repeat(64))).change) };
}

describe("a releaser", () => {
  let server: TestServer;
  let admin: ServerOperations;
  let releaser: ServerOperations;
  before(async () => {
    server = await startTestServer();
    admin = server.handle.operations;
    const { token } = await admin.addToken({ name: "ci", role: "releaser" });
    releaser = connectOperations({ url: server.handle.httpUrl, token });
    await importBase(server, "signed", "1", 1);
    await importBase(server, "unsigned", "2", 2);
    await server.enroll("van-1");
  });
  after(async () => {
    await releaser.close();
    await server.remove();
  });
  const rollout = (model: string, name = model): Parameters<ServerOperations["createRollout"]>[0] => ({
    fleet,
    name,
    model,
    line: "line",
    select: "all",
    policy: { wait: true },
  });
  const release = async (model: string): Promise<ReleaseChange> =>
    addRelease(
      await publishedOf(admin, fleet),
      model,
      unsignedManifest((await releaser.releaseManifest({ fleet, model })).manifest),
      validity,
    );

  it("does not say whose keys are the owner's", async () => {
    const first = signed(
      firstChange(fleet, keysFor({ root: [seed], targets: [seed], online: [seed] }), validity),
    );
    await assert.rejects(releaser.publishReleases(first), notAllowed);
    await admin.publishReleases(first);
  });

  it("publishes what the owner signed, and rolls it out", async () => {
    const change = await release("signed");
    await assert.rejects(releaser.publishReleases({ fleet, change: changeText(change) }), {
      code: "RELEASE_METADATA_INVALID",
    });
    await releaser.publishReleases(signed(change));
    await releaser.createRollout(rollout("release:signed", "r"));
    const running = await releaser.setRollout({ fleet, rollout: "r", phase: "running" });
    assert.equal(running.phase, "running");
    const { facts } = await admin.journal({ fleet, limit: 1 });
    assert.deepEqual(facts[0]?.["by"], { who: "ci", through: "http", role: "releaser" });
  });

  it("rolls out nothing that the owner did not sign, and touches no rollout of it", async () => {
    await assert.rejects(releaser.createRollout(rollout("unsigned")), notAllowed);
    await admin.createRollout(rollout("unsigned"));
    const factsOfReleaser = async (): Promise<number> =>
      (await admin.journal({ fleet, limit: 1000 })).facts.filter(({ by }) =>
        JSON.stringify(by)?.includes('"ci"'),
      ).length;
    const count = await factsOfReleaser();
    const named = { fleet, rollout: "unsigned" };
    for (const phase of ["running", "paused", "aborted"] as const)
      await assert.rejects(releaser.setRollout({ ...named, phase }), notAllowed);
    await assert.rejects(releaser.approveRollout(named), notAllowed);
    await assert.rejects(releaser.undoRollout(named), notAllowed);
    assert.equal(await factsOfReleaser(), count);
  });

  it("ends the rollout of a release that was revoked since, and begins none", async () => {
    await releaser.setRollout({ fleet, rollout: "r", phase: "paused" });
    const revoked = revokeRelease(
      fleet,
      await publishedOf(admin, fleet),
      { name: "signed", because: "poisoned" },
      validity,
    );
    await releaser.publishReleases(signed(revoked));
    await assert.rejects(releaser.setRollout({ fleet, rollout: "r", phase: "running" }), notAllowed);
    await assert.rejects(releaser.createRollout(rollout("signed", "again")), notAllowed);
    await releaser.undoRollout({ fleet, rollout: "r" });
  });

  it("is refused every operation that needs another right", async () => {
    const held = rightsOfRole.releaser;
    const names = Object.entries<OperationDefinition>(operationTable)
      .filter(([, { right, kind }]) => kind === "call" && right !== null && !held.has(right))
      .map(([name]) => name);
    assert.ok(names.length > 70);
    for (const name of names) {
      const { method, path } = operationTable[name as keyof typeof operationTable];
      const url = `${server.handle.httpUrl}${path.replace(":fleet", fleet).replace(/:\w+/g, "x")}`;
      const { token } = await admin.addToken({ name: "one", role: "releaser" });
      const answer = await fetch(url, { method, headers: { authorization: `Bearer ${token}` } });
      await admin.removeToken({ name: "one" });
      assert.equal(answer.status, 403, name);
      assert.match(await answer.text(), /"NOT_ALLOWED"/, name);
    }
  });
});
