/** Releases from the owner's key to a device: what only the server signed is not run. */
import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { keyOfSeed } from "../../../shared/trust/keys.js";
import { changeText, parseChange } from "../../../shared/trust/releases/change-file.js";
import { addRelease, defaultValidDays, firstChange } from "../../../shared/trust/releases/release-change.js";
import {
  parseRestoreFile,
  restoreFileText,
  signRestore,
} from "../../../shared/trust/releases/restore-approval.js";
import type { ServerOperations } from "../../../server/interface/api/server-operations.js";
import { startServer } from "../../../server/main.js";
import { restoreHome } from "../../../server/operations/stores/restore.js";
import { silentLog } from "../../../shared/adapters/node-ports.js";
import { publishedOf } from "../../../server/cli/release-choices.js";
import { unsignedManifest } from "../../../shared/trust/releases/manifest.js";
import {
  importBase,
  isOfVersion,
  ofBase,
  startAgentTestEnvironment,
  testLine,
} from "../../helpers/agent-test-environment.js";
import { pollUntil } from "../../helpers/poll-until.js";
import {
  ownerKeys,
  ownerSeed,
  publish,
  publishFirst,
  release,
  revoke,
} from "../../helpers/publish-releases.js";
import { testFleet } from "../../helpers/test-server.js";

const seed = ownerSeed;
const keys = ownerKeys;

describe("an agent that demands releases", () => {
  it("runs what the owner released and what it made, and nothing else, also after a restart", async (t) => {
    const { server, startAgent } = await startAgentTestEnvironment(t);
    const { operations } = server.handle;
    const validity = { nowMs: Date.now(), days: defaultValidDays };
    const first = firstChange(testFleet, keys, validity);
    await assert.rejects(operations.publishReleases({ fleet: testFleet, change: changeText(first) }), {
      code: "RELEASE_METADATA_INVALID",
    });
    await publish(server, first);
    await importBase(server, "next", "7", 3);
    const versionOf = async (model: string): Promise<Hash> =>
      (await operations.model({ fleet: testFleet, model })).versionId;
    const device = { fleet: testFleet, device: "strict" };
    const enrolment = await server.enroll("strict", [testLine], { [testLine]: "base" });
    assert.equal(enrolment.releases?.policy, "required");
    const home = await mkdtemp(join(tmpdir(), "stemma-strict-"));
    t.after(() => rm(home, { recursive: true, force: true }));
    const agent = await startAgent({ enrolment, home });
    const [base, next] = [await versionOf("base"), await versionOf("next")];
    const isRefused = (code: string, versionId: Hash) => (fields: Readonly<Record<string, unknown>>) =>
      fields["versionId"] === versionId && String(fields["text"]).includes(code);
    await agent.log.until("offer-failed", 1, isRefused("RELEASE_REQUIRED", base));
    assert.equal((await agent.handle.status()).lines[0]?.active, null);

    await release(server, "base");
    await agent.log.until("activated", 1, isOfVersion(base));
    const trained = await agent.handle.train(testLine);
    await agent.log.until("activated", 1, isOfVersion(trained.versionId));

    const plan = async (model: string) =>
      (await operations.planRollout({ fleet: testFleet, name: "r", model, line: testLine, select: "all" }))
        .refusing;
    assert.deepEqual([await plan("next"), await plan("release:base")], [["strict"], []]);

    // The thief of the server's key assigns what nobody released.
    await operations.assign({ ...device, line: testLine, model: "next" });
    await agent.log.until("offer-failed", 1, isRefused("RELEASE_REQUIRED", next));
    await agent.handle.close();
    const again = await startAgent({ enrolment: server.withCurrentAddress(enrolment), home });
    await again.log.until("offer-failed", 1, isRefused("RELEASE_REQUIRED", next));
    assert.equal((await again.handle.status()).lines[0]?.active, trained.versionId);

    // The owner goes back to an earlier release. What was revoked does not run, though it was released.
    await operations.assign({ ...device, line: testLine, model: "release:base" });
    await again.log.until("activated", 1, isOfVersion(base));
    await release(server, "next");
    await revoke(server, "next", "poisoned");
    await operations.assign({ ...device, line: testLine, model: "next" });
    await again.log.until("offer-failed", 1, isRefused("RELEASE_REVOKED", next));
    assert.equal((await again.handle.status()).lines[0]?.active, base);
    const { revoked, releases } = await operations.releases({ fleet: testFleet });
    assert.deepEqual([revoked.map(({ name }) => name), releases.length], [["next"], 1]);
    await assert.rejects(operations.assign({ ...device, line: testLine, model: "release:next" }), {
      code: "RELEASE_UNKNOWN",
    });
  });

  it("goes on after a restore when the owner has signed it, and keeps and trains until then", async (t) => {
    const environment = await startAgentTestEnvironment(t);
    const { server, mqttPort, startAgent } = environment;
    const operations = (): ServerOperations => server.handle.operations;
    await publishFirst(server);
    await release(server, "base");
    await assert.rejects(operations().restoreToSign({ fleet: testFleet }), { code: "NOT_FOUND" });
    const enrolment = await server.enroll("strict", [testLine], { [testLine]: "base" });
    const folder = await mkdtemp(join(tmpdir(), "stemma-restored-"));
    t.after(() => rm(folder, { recursive: true, force: true }));
    const at = (name: string): string => join(folder, name);
    await mkdir(at("agent"));
    const { handle, log } = await startAgent({ enrolment, home: at("agent") });
    await log.until("activated", 1, ofBase);
    await operations().backup({ fleet: testFleet, folder: at("backup"), plainKey: true });
    const trained = await handle.train(testLine);
    await log.until("released", 1, isOfVersion(trained.versionId));
    await server.handle.close();
    await restoreHome(at("backup"), at("home"));
    server.handle = await startServer(
      { home: at("home"), fleets: [testFleet], mqttPort, httpPort: 0, tls: "none" },
      silentLog(),
    );
    await log.until("server-history-rewritten");
    const { distrust } = (await handle.status()).history;
    assert.equal(distrust?.unsigned, true);
    const doubt = await pollUntil(
      "the server knows that the device doubts it",
      async () => (await operations().device({ fleet: testFleet, device: "strict" })).doubt?.text,
    );
    assert.match(doubt, /waits for the signature of the fleet's owner/);
    const meanwhile = await handle.train(testLine);
    assert.equal(log.count("server-restored"), 0);

    const { file, says } = await operations().restoreToSign({ fleet: testFleet });
    assert.match(says.join(), /may be lost/);
    const sign = (text: string, digit: string): string =>
      restoreFileText(signRestore(parseRestoreFile(text) ?? assert.fail(), keyOfSeed(digit.repeat(64))));
    assert.throws(() => sign(file, "e"), { code: "KEY_INVALID" });
    const bring = (text: string, dryRun = false) =>
      operations().approveRestore({ fleet: testFleet, file: text, dryRun });
    await assert.rejects(bring(file), { code: "RELEASE_METADATA_INVALID" });
    const signed = sign(file, seed);
    await assert.rejects(bring(signed.replace('"position": ', '"position": 1')), {
      code: "RELEASE_METADATA_INVALID",
    });
    await bring(signed, true);
    assert.equal(log.count("server-restored"), 0);
    await bring(signed);
    await bring(signed);
    await log.until("server-believed");
    for (const { versionId } of [trained, meanwhile])
      await log.until("released", versionId === trained.versionId ? 2 : 1, isOfVersion(versionId));
    const facts = (await operations().journal({ fleet: testFleet })).facts;
    assert.equal(facts.filter(({ type }) => type === "restore-approved").length, 1);
  });

  it("is refused a change that was signed for another fleet, or before another change", async (t) => {
    const { server } = await startAgentTestEnvironment(t);
    const { operations } = server.handle;
    const validity = { nowMs: Date.now(), days: defaultValidDays };
    await publish(server, firstChange(testFleet, keys, validity));
    await assert.rejects(publish(server, firstChange("other", keys, validity)), {
      code: "RELEASE_METADATA_INVALID",
    });
    const before = await publishedOf(operations, testFleet);
    await release(server, "base");
    const made = await operations.releaseManifest({ fleet: testFleet, model: "base" });
    const stale = addRelease(before, "late", unsignedManifest(made.manifest), validity);
    await assert.rejects(publish(server, stale), { code: "RELEASE_ROLLED_BACK" });
    assert.doesNotThrow(() => parseChange(changeText(stale)));
  });
});
