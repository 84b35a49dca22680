/**
 * Failures around an agent: a restored server, a cloned device, a full disk, an interrupted transfer, a
 * server with another certificate.
 */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { cp, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { promisify } from "node:util";
import { startServer } from "../../../server/main.js";
import { restoreHome } from "../../../server/operations/stores/restore.js";
import { silentLog } from "../../../shared/adapters/node-ports.js";
import { isStemmaError } from "../../../shared/errors.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { fakeTraining } from "../../helpers/agent-fixtures.js";
import {
  ofBase,
  testLine,
  isOfVersion,
  restartOnSamePort,
  startAgentTestEnvironment,
} from "../../helpers/agent-test-environment.js";
import { pollUntil } from "../../helpers/poll-until.js";
import { testFleet } from "../../helpers/test-server.js";

const openssl = promisify(execFile);
const MiB = 2 ** 20;

describe("an agent despite failures", () => {
  it("announces again the versions that a restored server has lost, without base where the base is gone, and reports versions that no longer exist anywhere", async (t) => {
    const { server, mqttPort, startAgent } = await startAgentTestEnvironment(t);
    const { handle, log } = await startAgent({ profile: { "disk.keepLast": 1 } });
    await log.until("activated", 1, ofBase);
    const trained: Hash[] = [];
    const ranAtMs: number[] = [];
    const folder = await mkdtemp(join(tmpdir(), "stemma-backup-"));
    const restored = await mkdtemp(join(tmpdir(), "stemma-restored-"));
    t.after(async () => {
      await rm(folder, { recursive: true, force: true });
      await rm(restored, { recursive: true, force: true });
    });
    for (let round = 1; round <= 4; round++) {
      const { versionId } = await handle.train(testLine);
      trained.push(versionId);
      await log.until("released", 1, isOfVersion(versionId));
      await log.until("activated", 1, isOfVersion(versionId));
      ranAtMs.push(Date.now());
      if (round === 1) await server.handle.operations.backup({ fleet: testFleet, folder, plainKey: true });
    }
    await log.until("forgotten", 1, ({ versions }) =>
      (versions as readonly string[]).includes(trained[1] as string),
    );
    await server.handle.close();
    await restoreHome(folder, restored);
    server.handle = await startServer(
      { home: restored, fleets: [testFleet], mqttPort: mqttPort, httpPort: 0, tls: "none" },
      silentLog(),
    );
    await log.until("model-lost", 1, ({ text }) => String(text).includes(trained[1] as string));
    await log.until("released", 2, isOfVersion(trained[3] as Hash));
    const known = await server.handle.operations.models({ fleet: testFleet, device: "v1" });
    assert.ok(known.some(({ versionId }) => versionId === trained[3]));
    assert.equal(
      (await server.handle.operations.verify({ fleet: testFleet, model: trained[3] as Hash })).versionId,
      trained[3],
    );
    // The activations are reported again, those of lost versions too: no report may state that an older
    // version ran in their place.
    await pollUntil("the restored server knows what runs", async () => {
      const { active } = await server.handle.operations.device({ fleet: testFleet, device: "v1" });
      return active[testLine]?.versionId === trained[3];
    });
    const [moment] = await server.handle.operations.asOf({ fleet: testFleet, at: ranAtMs[1] as number });
    assert.ok(
      moment?.versionId === trained[1] || moment?.versionId === "unknown",
      `${moment?.versionId} is reported to have run when ${trained[1]} did`,
    );
    const again = log.count("server-restored");
    await handle.train(testLine);
    assert.equal(log.count("server-restored"), again, "a restoration is news once");
  });

  it("retries rarely when it was cloned, and reports it; the device is quarantined until a person enrols it", async (t) => {
    const { server, startAgent, home } = await startAgentTestEnvironment(t);
    const first = await startAgent();
    await first.log.until("activated", 1, ofBase);
    await first.handle.close();
    const copy = await mkdtemp(join(tmpdir(), "stemma-clone-"));
    t.after(() => rm(copy, { recursive: true, force: true }));
    await cp(home, copy, { recursive: true, filter: (path) => !path.endsWith(".sock") });
    const original = await startAgent();
    await original.log.until("welcomed");
    const clone = await startAgent({ home: copy });
    // The link's own event, which says when it tries again; the server's words may come as another one.
    const isOfLink = ({ retryMs }: Readonly<Record<string, unknown>>): boolean => retryMs !== undefined;
    const { fields } = await clone.log.until("not-admitted", 1, isOfLink);
    assert.ok(Number(fields["retryMs"]) >= 30_000, `retries in ${String(fields["retryMs"])} ms`);
    await original.log.until("not-admitted", 1, isOfLink);
    assert.equal((await original.handle.status()).link.phase, "waiting");
    const { operations } = server.handle;
    const quarantined = await operations.device({ fleet: testFleet, device: "v1" });
    assert.equal(quarantined.state, "quarantined");
    assert.match(quarantined.quarantined?.because ?? "", /session/);
    // What either of them makes meanwhile stays on it; the new enrolment serves one of them alone.
    const { versionId } = await original.handle.train(testLine);
    await original.handle.close();
    await clone.handle.close();
    const enrolment = await server.enroll("v1", [testLine]);
    const again = await startAgent({ enrolment });
    await again.log.until("released", 1, isOfVersion(versionId));
    const refused = await startAgent({ home: copy });
    await refused.log.until("not-admitted", 1, isOfLink);
    assert.equal((await operations.device({ fleet: testFleet, device: "v1" })).state, "enrolled");
  });

  it("reports that it is not admitted after it was revoked, and keeps its models", async (t) => {
    const { server, startAgent } = await startAgentTestEnvironment(t);
    const { handle, log } = await startAgent({ profile: { activation: "after-outbox" } });
    await log.until("activated", 1, ofBase);
    await server.handle.operations.revoke({ fleet: testFleet, device: "v1", because: "stolen" });
    const { fields } = await log.until("not-admitted");
    assert.match(String(fields["text"]), /revoked/);
    const { versionId } = await handle.train(testLine);
    const kept = (await handle.status()).lines[0]?.versions.find(
      (version) => version.versionId === versionId,
    );
    assert.equal(kept?.standing, "pending");
  });

  it("stops training at its disk limit with an event, drops nothing, and continues once the server has released models", async (t) => {
    const { server, mqttPort, startAgent } = await startAgentTestEnvironment(t, { units: 4000 });
    const { handle, log } = await startAgent({
      profile: { activation: "after-outbox", "disk.budgetBytes": 4 * MiB, "disk.keepLast": 1 },
      ports: { train: fakeTraining({ full: true }).train },
      lines: {
        [testLine]: {
          recipe: "fake",
          dataset: { reader: "images-generated" },
          schedule: { everySeconds: 0.01, afterSamples: null },
        },
      },
    });
    await log.until("activated", 1, ofBase);
    await log.until("connected");
    await server.handle.close();
    const { fields } = await log.until("training-stopped", 1, { line: testLine });
    assert.match(String(fields["text"]), /missing within the profile's budget/);
    await assert.rejects(handle.train(testLine), (error) => isStemmaError(error, "DISK_BUDGET_EXHAUSTED"));
    const trained = log.events
      .filter(({ event }) => event === "trained")
      .map(({ fields: { versionId } }) => versionId as Hash);
    const kept = (await handle.status()).lines[0]?.versions ?? [];
    for (const { versionId, standing } of kept)
      if (standing !== "released") assert.ok(trained.includes(versionId));
    const waiting = kept.filter(({ standing }) => standing !== "released").length;
    assert.ok(waiting > 2, `${waiting} models wait`);
    assert.equal(log.count("training-stopped"), 1, "reported once");
    await restartOnSamePort(server, mqttPort);
    await log.until("trained", 1, ({ versionId }) => !trained.includes(versionId as Hash));
    for (const versionId of trained) await log.until("released", 1, isOfVersion(versionId));
  });

  it("resumes an interrupted transfer in the next process", async (t) => {
    const { startAgent } = await startAgentTestEnvironment(t, { units: 10_000 });
    // Coded by its own decision, because the link is slow.
    const slow = { "link.blockBytes": 4096, "link.window": 2, "link.bytesPerSecond": 40_000 };
    const ports = { train: fakeTraining({ full: true }).train };
    const first = await startAgent({ profile: slow, ports });
    await first.log.until("activated", 1, ofBase);
    const { versionId } = await first.handle.train(testLine);
    await first.log.until("wanted", 1, isOfVersion(versionId));
    await pollUntil("a part of the upload", async () =>
      (await first.handle.status()).uploads.some(({ sentBytes }) => sentBytes >= 30_000),
    );
    await first.handle.close();
    const sent = Number(
      (await first.log.until("upload-ended", 1, isOfVersion(versionId))).fields["sentBytes"],
    );
    const second = await startAgent({ profile: slow, ports });
    await second.log.until("released", 1, isOfVersion(versionId));
    const { fields } = await second.log.until("upload-ended", 1, isOfVersion(versionId));
    const total = Number(fields["byteLength"]);
    assert.ok(sent >= 30_000 && sent < total && total < 150_000, `${sent} of ${total} bytes`);
    assert.ok(
      Number(fields["sentBytes"]) <= total - sent + 8 * 4096,
      `${sent} of ${total} bytes were sent before, ${String(fields["sentBytes"])} after`,
    );
  });

  it("uses mqtts, and refuses a server with another certificate", async (t) => {
    const folder = await mkdtemp(join(tmpdir(), "stemma-tls-"));
    t.after(() => rm(folder, { recursive: true, force: true }));
    const certificate = async (name: string): Promise<{ certFile: string; keyFile: string } | undefined> => {
      const made = { certFile: join(folder, `${name}.pem`), keyFile: join(folder, `${name}.key`) };
      try {
        await openssl("openssl", [
          "req",
          "-x509",
          "-newkey",
          "ec",
          "-pkeyopt",
          "ec_paramgen_curve:prime256v1",
          "-nodes",
          "-keyout",
          made.keyFile,
          "-out",
          made.certFile,
          "-days",
          "2",
          "-subj",
          "/CN=localhost",
          "-addext",
          "subjectAltName=IP:127.0.0.1,DNS:localhost",
        ]);
      } catch {
        return undefined;
      }
      return made;
    };
    const [tls, other] = [await certificate("one"), await certificate("other")];
    if (tls === undefined || other === undefined) {
      t.skip("openssl is not on this machine, so no certificate can be made");
      return;
    }
    const { startAgent, enrolment } = await startAgentTestEnvironment(t, { server: { tls } });
    assert.match(enrolment.mqtt[0] ?? "", /^mqtts:/);
    const right = await startAgent();
    await right.log.until("activated", 1, ofBase);
    await right.handle.close();
    const wrong = await startAgent({
      enrolment: { ...enrolment, ca: await readFile(other.certFile, "utf8") },
    });
    const { fields } = await wrong.log.until("disconnected");
    assert.match(String(fields["text"]), /certificate|self.signed/i);
  });
});
