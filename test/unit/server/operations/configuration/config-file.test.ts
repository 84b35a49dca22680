/** server.json: every key is described, paths are relative to its folder, and errors name the key. */
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { isStemmaError, type StemmaError } from "../../../../../shared/errors.js";
import {
  parseServerFile,
  readServerFile,
  serverFileJsonSchema,
} from "../../../../../server/operations/configuration/config-file.js";
import { defaultBrokerLimits } from "../../../../../server/access/broker/broker-limits.js";
import { defaultHttpLimits } from "../../../../../server/interface/http/http-limits.js";
import { defaultIngestLimits } from "../../../../../server/fleet/ingest/limits.js";

async function homeWith(t: TestContext, content: unknown): Promise<string> {
  const home = await mkdtemp(join(tmpdir(), "stemma-config-"));
  t.after(() => rm(home, { recursive: true, force: true }));
  await writeFile(join(home, "server.json"), JSON.stringify(content));
  return home;
}

function messageFor(content: unknown): string {
  try {
    parseServerFile(Buffer.from(JSON.stringify(content)), "/h/server.json");
  } catch (error) {
    assert.ok(isStemmaError(error, "CONFIG_INVALID"));
    return (error as StemmaError).message;
  }
  return "";
}

test("every key of server.json is described, and every limit is there with its default", () => {
  interface Node {
    readonly description?: string;
    readonly default?: unknown;
    readonly properties?: Readonly<Record<string, Node>>;
    readonly oneOf?: readonly Node[];
  }
  const walk = (node: Node, path: string): void => {
    for (const branch of node.oneOf ?? []) walk(branch, path);
    for (const [key, child] of Object.entries(node.properties ?? {})) {
      assert.ok((child.description ?? "").length > 10, `${path}${key} has no description`);
      walk(child, `${path}${key}.`);
    }
  };
  const schema = serverFileJsonSchema() as Node;
  walk(schema, "");
  const limits = schema.properties?.["limits"]?.properties ?? {};
  for (const [name, defaults] of [
    ["ingest", defaultIngestLimits],
    ["broker", defaultBrokerLimits],
    ["http", defaultHttpLimits],
  ] as const)
    for (const [key, value] of Object.entries(defaults))
      assert.equal(limits[name]?.properties?.[key]?.default, value, `limits.${name}.${key}`);
});

test("server.json sets options; its paths are relative to its folder", async (t) => {
  const home = await homeWith(t, {
    format: 1,
    listen: { host: "::1", mqttPort: 0, httpPort: 9000 },
    broker: {
      kind: "external",
      url: "mqtts://broker.example",
      passwordFile: "secret",
      caFile: "/etc/ca.pem",
    },
    enrolment: { mqttUrls: ["mqtts://public.example"] },
    topicRoot: "plant/models",
    releasePolicy: "backed-up",
    retention: false,
    log: { level: "debug", form: "json" },
    limits: { ingest: { window: 4 }, broker: { maxConnections: 7 } },
  });
  const { options, log } = await readServerFile(home);
  assert.deepEqual([options.host, options.mqttPort, options.httpPort], ["::1", 0, 9000]);
  assert.deepEqual([options.rootTopic, options.releaseAfter], ["plant/models", "backed-up"]);
  assert.equal(options.retention, false);
  assert.equal(options.broker?.passwordFile, join(home, "secret"));
  assert.equal(options.broker?.caFile, "/etc/ca.pem");
  assert.deepEqual(options.enrolment?.mqttUrls, ["mqtts://public.example"]);
  assert.equal(options.limits?.window, 4);
  assert.equal(options.limits?.blockBytes, defaultIngestLimits.blockBytes);
  assert.equal(options.brokerLimits?.maxConnections, 7);
  assert.deepEqual(log, { level: "debug", form: "json" });
});

test("a home without server.json has no settings; a file named explicitly must exist", async (t) => {
  const home = await mkdtemp(join(tmpdir(), "stemma-config-"));
  t.after(() => rm(home, { recursive: true, force: true }));
  assert.deepEqual(await readServerFile(home), { options: {}, log: {} });
  await assert.rejects(readServerFile(home, join(home, "other.json")), { code: "FILE_MISSING" });
});

test("an error names the file, the wrong key and the nearest known key", () => {
  const misspelled = messageFor({ format: 1, limits: { ingest: { maxModelByte: 1 } } });
  assert.ok(misspelled.includes("/h/server.json"));
  assert.ok(misspelled.includes("limits.ingest.maxModelByte"));
  assert.ok(misspelled.includes("maxModelBytes?"));
  // Only the keys of the chosen broker are known.
  const embedded = messageFor({ format: 1, broker: { kind: "embedded", username: "s" } });
  assert.ok(embedded.includes("broker.username") && embedded.includes("known here: kind"));
  for (const [content, key] of [
    [{ format: 2 }, "format"],
    [{ format: 1, listen: { mqttPort: 70_000 } }, "listen.mqttPort"],
    [{ format: 1, topicRoot: "a/b/c" }, "topicRoot"],
    [{ format: 1, broker: { kind: "external", url: "http://x" } }, "broker.url"],
    [{ format: 1, limits: { broker: { maxConnections: 0 } } }, "limits.broker.maxConnections"],
    [{ format: 1, limits: { ingest: { blockBytes: 1 } } }, "limits.ingest.blockBytes"],
    [{ format: 1, releasePolicy: "never" }, "releasePolicy"],
  ] as const)
    assert.ok(messageFor(content).includes(key), key);
  assert.throws(() => parseServerFile(Buffer.from("{"), "f"), { code: "CONFIG_INVALID" });
  assert.throws(() => parseServerFile(Buffer.alloc(2 ** 20 + 1, 32), "f"), { code: "CONFIG_INVALID" });
});
