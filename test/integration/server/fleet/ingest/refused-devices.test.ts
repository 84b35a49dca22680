/** A device that is not admitted is seen: its reason is in the log, in `device show` and in the metrics. */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import mqtt from "mqtt";
import { readHttpToken } from "../../../../../server/interface/http/token.js";
import { startServer, type ServerHandle } from "../../../../../server/main.js";
import { silentLog } from "../../../../../shared/adapters/node-ports.js";
import type { ErrorCode } from "../../../../../shared/errors.js";
import type { Log } from "../../../../../shared/ports.js";
import { parseEnrolment, type Enrolment } from "../../../../../shared/trust/enrolment.js";
import { encodeEnvelope } from "../../../../../shared/wire/codec.js";
import { buildTopic, clientIdOf } from "../../../../../shared/wire/topics.js";
import { pollUntil } from "../../../../helpers/poll-until.js";
import { runStemmaHere } from "../../../../helpers/run-stemma-here.js";
import { ScriptedDevice, stateOf } from "../../../../helpers/scripted-device.js";

const fleet = "cars";

describe("a device that is not admitted", () => {
  let home: string;
  let server: ServerHandle;
  const logged: string[] = [];
  const log: Log = {
    ...silentLog(),
    warn: (event, fields) => logged.push(`${event} ${JSON.stringify(fields)}`),
    child: () => log,
  };
  before(async () => {
    home = await mkdtemp(join(tmpdir(), "stemma-refused-"));
    server = await startServer({ home, fleets: [fleet], mqttPort: 0, httpPort: 0, tls: "none" }, log);
  });
  after(async () => {
    await server.close();
    await rm(home, { recursive: true, force: true });
  });

  const enrol = async (device: string): Promise<Enrolment> =>
    parseEnrolment(await server.operations.enroll({ fleet, device, lines: ["line"] }));
  const isRefused = (enrolment: Enrolment, session = 1): Promise<void> =>
    assert.rejects(ScriptedDevice.connect(enrolment, { session }), { code: 5 });

  /** Connects as an agent of another protocol does. */
  async function connectFromTheFuture(enrolment: Enrolment): Promise<void> {
    const { device, root, token = "" } = enrolment;
    const body = await stateOf(enrolment, { session: 1, previousSession: 0, online: false });
    const will = encodeEnvelope({
      protocol: 99,
      session: 1,
      sequence: 0,
      correlation: "",
      expiresMs: 0,
      body,
    });
    const client = mqtt.connect(enrolment.mqtt[0] ?? "", {
      ...{ protocolVersion: 4, reconnectPeriod: 0, clientId: clientIdOf(fleet, device), username: device },
      password: token,
      will: { topic: buildTopic({ root, fleet, device, kind: "state" }), qos: 1, payload: Buffer.from(will) },
    });
    client.on("error", () => undefined);
    await new Promise<void>((resolve) => {
      client.once("close", resolve);
    });
  }

  const reasons: Record<string, readonly [ErrorCode, RegExp, (device: string) => Promise<unknown>]> = {
    revoked: [
      "DEVICE_REVOKED",
      /it was revoked/,
      async (device) => {
        const enrolment = await enrol(device);
        await server.operations.revoke({ fleet, device, because: "sold" });
        await isRefused(enrolment);
      },
    ],
    stranger: [
      "TOKEN_INVALID",
      /its token is not that of its newest enrolment/,
      async (device) => isRefused({ ...(await enrol(device)), token: "another" }),
    ],
    copied: [
      "DEVICE_QUARANTINED",
      /quarantined: session 1 came after session 1/,
      async (device) => {
        const enrolment = await enrol(device);
        const original = await ScriptedDevice.connect(enrolment, { session: 1 });
        await isRefused(enrolment);
        await original.closed();
      },
    ],
    newer: [
      "PROTOCOL_VERSION_UNSUPPORTED",
      /its will cannot be read: .*99/,
      async (device) => connectFromTheFuture(await enrol(device)),
    ],
  };
  for (const [device, [code, why, connect]] of Object.entries(reasons))
    it(`is seen with its reason: ${device}`, async () => {
      await connect(device);
      const { refusals = [] } = await server.operations.device({ fleet, device });
      assert.deepEqual(
        refusals.map((each) => [each.code, each.count]),
        [[code, 1]],
      );
      assert.match(refusals[0]?.message ?? "", why);
      const isLogged = (): boolean =>
        logged.some(
          (line) => line.startsWith("connection-refused") && line.includes(device) && why.test(line),
        );
      await pollUntil("the reason is in the log", isLogged);
      const { stdout } = await runStemmaHere(["device", "show", device, "--fleet", fleet], { home });
      assert.match(stdout.replaceAll(/\s+/g, " "), new RegExp(`NOT ADMITTED once .*\\[${code}\\]`));
      const token = await readHttpToken(home);
      const metrics = await fetch(`${server.httpUrl}/metrics`, {
        headers: { authorization: `Bearer ${token}` },
      });
      const counted = `stemma_connections_refused_total{fleet="${fleet}",code="${code}"} 1\n`;
      assert.ok((await metrics.text()).includes(counted), counted);
    });

  it("is said where the server has no such fleet, or no such device", async () => {
    const enrolment = await enrol("tourer");
    await isRefused({ ...enrolment, fleet: "trucks" });
    await isRefused({ ...enrolment, device: "nobody" });
    const lines = (): string => logged.join("\n");
    await pollUntil("both are in the log", () =>
      /trucks:tourer was not admitted: this server has no such fleet[^]*nobody was not admitted: no device/.test(
        lines(),
      ),
    );
  });
});
