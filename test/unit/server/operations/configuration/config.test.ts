/** The options of a server: defaults, checks, and combinations that are refused. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { serverConfig } from "../../../../../server/operations/configuration/config.js";
import { defaultIngestLimits } from "../../../../../server/fleet/ingest/limits.js";

it("a server's options get defaults and are checked; each wrong one is named", () => {
  const config = serverConfig({ home: "/h", limits: { window: 3 } });
  assert.deepEqual(
    [
      config.host,
      config.mqttPort,
      config.httpPort,
      config.releaseAfter,
      config.limits.window,
      config.limits.blockBytes,
    ],
    ["127.0.0.1", 1883, 8083, "stored", 3, defaultIngestLimits.blockBytes],
  );
  assert.throws(() => serverConfig({ home: "/h", mqttPort: 70_000 }), { code: "CONFIG_INVALID" });
  assert.throws(() => serverConfig({ home: "/h", httpPort: -1 }), { code: "CONFIG_INVALID" });
  assert.throws(() => serverConfig({ home: "/h", fleets: ["a.b"] }), { code: "TOPIC_INVALID" });
  assert.throws(() => serverConfig({ home: "/h", rootTopic: "a/b/c" }), { code: "TOPIC_INVALID" });
  assert.throws(() => serverConfig({ home: "/h", limits: { window: 0 } }), { code: "CONFIG_INVALID" });
});

it("TLS files cannot be combined with an external broker", () => {
  const options = {
    home: "/h",
    tls: { certFile: "c", keyFile: "k" },
    broker: { url: "mqtt://broker.example" },
  };
  assert.throws(() => serverConfig(options), { code: "CONFIG_INVALID" });
});

it("certificates at an external broker need its address and authority, and names that no device can have", () => {
  const broker = { url: "mqtts://broker.example", caFile: "/ca.pem", deviceCertificates: true };
  const chosen = (more: object, options: object = {}) =>
    serverConfig({ home: "/h", broker: { ...broker, ...more }, ...options });
  const { givesCertificates, deviceTokens } = chosen({ username: "server.f", clientId: "server.f" });
  assert.deepEqual([givesCertificates, deviceTokens], [true, false]);
  for (const more of [
    { url: "mqtt://broker.example" },
    { caFile: undefined },
    { username: "server" },
    { clientId: "server" },
  ])
    assert.throws(() => chosen(more), { code: "CONFIG_INVALID" });
  assert.throws(() => chosen({}, { tls: "none" }), { code: "CONFIG_INVALID" });
  assert.throws(() => chosen({}, { enrolment: { mqttUrls: ["mqtt://b.example"] } }), {
    code: "CONFIG_INVALID",
  });
});

it("TLS of the server's own is the default, and tokens are taken where it gives no certificates", () => {
  const chosen = (options: object): unknown => {
    const { tls, deviceTokens } = serverConfig({ home: "/h", ...options });
    return [typeof tls === "string" ? tls : "files", deviceTokens];
  };
  const broker = { url: "mqtt://broker.example" };
  assert.deepEqual(chosen({}), ["own", false]);
  assert.deepEqual(chosen({ deviceTokens: true }), ["own", true]);
  assert.deepEqual(chosen({ tls: "none" }), ["none", true]);
  assert.deepEqual(chosen({ tls: { certFile: "c", keyFile: "k" } }), ["files", true]);
  assert.deepEqual(chosen({ broker }), ["own", true]);
  for (const options of [
    { tls: "none", deviceTokens: false },
    { broker, deviceTokens: false },
    { enrolment: { mqttUrls: ["mqtts://a.example", "mqtt://b.example"] } },
    { enrolment: { httpUrl: "http://a.example" } },
  ])
    assert.throws(() => chosen(options), { code: "CONFIG_INVALID" });
  assert.deepEqual(chosen({ tls: "none", enrolment: { mqttUrls: ["mqtt://b.example"] } }), ["none", true]);
});
