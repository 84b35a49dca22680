// A client of an external broker that may publish everywhere: the server records nothing of it, goes on for
// others, and logs a peer once, not every message.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "node:test";
import mqtt from "mqtt";
import { startServer } from "../../../../../server/main.js";
import type { Log } from "../../../../../shared/ports.js";
import { parseEnrolment } from "../../../../../shared/trust/enrolment.js";
import { plainBroker } from "../../../../helpers/plain-broker.js";
import { ScriptedDevice } from "../../../../helpers/scripted-device.js";
import { testFleet } from "../../../../helpers/test-server.js";

/** Messages of each kind and device. */
const repeats = 40;
/** Above what a device may send at a time. */
const hugeBytes = 12 * 1024 * 1024;

it("survives garbage, huge and retained messages of a hostile peer", async () => {
  const broker = await plainBroker();
  const home = await mkdtemp(join(tmpdir(), "stemma-hostile-"));
  const lines: string[] = [];
  const note = (event: string): void => {
    lines.push(event);
  };
  const log: Log = {
    debug: () => undefined,
    info: () => undefined,
    warn: note,
    error: note,
    child: () => log,
  };
  const options = { home, fleets: [testFleet], httpPort: 0, broker: { url: broker.url } };
  let server = await startServer(options, log);
  const peer = mqtt.connect(broker.url, { clientId: "peer", protocolVersion: 4 });
  const stop = async (): Promise<void> => {
    await peer.endAsync(true);
    await server.close();
    await broker.close();
    await rm(home, { recursive: true, force: true });
  };
  try {
    const enrolment = parseEnrolment(
      await server.operations.enroll({ fleet: testFleet, device: "v1", lines: ["line"], profile: "generic" }),
    );
    const devices = ["v1", "v2", "unknown", "%24odd", "ümlaut", "a b"];
    const topicOf = (device: string, kind: string): string =>
      `${enrolment.root}/v1/${testFleet}/${device}/${kind}`;
    const kinds = ["state", "birth", "up/words", "block/up/0123456789abcdef", "block/up/.."];
    const publish = (topic: string, payload: Buffer, retain: boolean): Promise<unknown> =>
      peer.publishAsync(topic, payload, { qos: 1, retain });
    for (const device of devices)
      for (const kind of kinds)
        for (let count = 0; count < repeats; count++)
          await publish(topicOf(device, kind), randomBytes(count * 50), count % 7 === 0);
    const before = process.memoryUsage().rss;
    for (const kind of kinds) await publish(topicOf("v2", kind), Buffer.alloc(hugeBytes, 1), true);
    // The server starts again on everything that the broker has retained.
    await server.close();
    server = await startServer(options, log);
    const device = await ScriptedDevice.connect(enrolment, { session: 1 });
    await device.reportOnline();
    await device.birth();
    await device.close();
    const grownBytes = process.memoryUsage().rss - before;
    assert.ok(grownBytes < 400 * 1024 * 1024, `grew by ${grownBytes}`);
    assert.deepEqual(await server.operations.models({ fleet: testFleet }), []);
    assert.deepEqual(
      (await server.operations.devices({ fleet: testFleet })).map((each) => [each.device, each.state]),
      [["v1", "enrolled"]],
    );
    const counts = Object.fromEntries(
      [...new Set(lines)].map((event) => [event, lines.filter((each) => each === event).length]),
    );
    // Twice, because the server was started twice.
    for (const count of Object.values(counts))
      assert.ok(count <= 2 * (devices.length + 1), JSON.stringify(counts));
  } finally {
    await stop();
  }
});
