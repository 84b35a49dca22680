// Kills the server in the middle of a transfer, as a power cut would; the transfer resumes.
import assert from "node:assert/strict";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "node:test";
import { parseEnrolment } from "../../../../../shared/trust/enrolment.js";
import { noiseBytes } from "../../../../helpers/noise-bytes.js";
import { streamOf } from "../../../../helpers/object-stores.js";
import { pollUntil } from "../../../../helpers/poll-until.js";
import { ScriptedDevice } from "../../../../helpers/scripted-device.js";
import { startServerProcess } from "../../../../../server/cli/simulation/server-process.js";
import { tensorBytes } from "../../../../helpers/test-server.js";
import { fetchObjects } from "./fetched-models.js";

const fleet = "test-fleet";

it("resumes a transfer after kill -9 of the server, without sending the written blocks again", async () => {
  const home = await mkdtemp(join(tmpdir(), "stemma-kill-"));
  const first = await startServerProcess(home, fleet);
  const enrolment = parseEnrolment(
    await first.operations.enroll({ fleet, device: "car", lines: ["line"], profile: "generic" }),
  );
  const total = 64;
  let blocks = 0;
  const device = await ScriptedDevice.connect(enrolment, {
    session: 1,
    blockBytes: 64 * 1024,
    intercept: (message) => (message.type === "block" && ++blocks > total / 2 ? [] : [message]),
  });
  await device.birth();
  // The stream is cut in the data, which comes after the tensors.
  const data = noiseBytes((3 * total * 64 * 1024) / 4, 2);
  const saved = await device.save(
    { w: noiseBytes((total * 64 * 1024) / 4, 1) },
    { sequence: 1, uses: { data: [{ source: streamOf(data) }] } },
  );
  await device.announce(saved);
  // The server requests blocks beyond those sent, so the sent ones are written.
  await device.find(
    (message): message is typeof message & { type: "blockRequest" } =>
      message.type === "blockRequest" && message.blocks.some((index) => index >= total / 2 + 6),
  );
  // The state file is written a moment after a block.
  const spool = join(home, "fleets", fleet, "spool");
  await pollUntil("the spool's state file", async () =>
    (await readdir(spool)).some((name) => name.endsWith(".state")),
  );
  assert.equal(await first.kill("SIGKILL"), "SIGKILL");
  await device.close();
  const second = await startServerProcess(home, fleet);
  try {
    const later = await ScriptedDevice.connect(
      { ...enrolment, mqtt: [second.mqttUrl] },
      { session: 2, previousSession: 1, blockBytes: 64 * 1024, store: device.store },
    );
    for (const [id, model] of device.models) later.models.set(id, model);
    await later.birth();
    const before = device.messages.flatMap((message) => (message.type === "want" ? [message.transfer] : []));
    await later.announce(saved);
    const want = await later.want(saved.versionId);
    assert.deepEqual([want.transfer], before, "another transfer began");
    await later.receipt("stored", saved.versionId);
    assert.ok(later.sentBlocks < total, `${later.sentBlocks} of ${total} blocks were sent again`);
    assert.deepEqual(
      (await tensorBytes(second.operations, saved.versionId, fleet))["w"],
      Buffer.from(noiseBytes((total * 64 * 1024) / 4, 1)),
    );
    const [id] = saved.record.uses?.data ?? [];
    assert.ok(id);
    const ref = { kind: "data" as const, id, byteLength: 0 };
    assert.deepEqual(await fetchObjects(later, saved.versionId, [ref], "1d".repeat(8)), Buffer.from(data));
    await later.close();
  } finally {
    assert.equal(await second.kill("SIGTERM"), 0, "a server that gets SIGTERM ends well");
    await rm(home, { recursive: true, force: true });
  }
});
