/** The server's metrics: what they count, and that an event that cannot be counted does not stop them. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { describe, it, type TestContext } from "node:test";
import { parse } from "yaml";
import { serverEvent } from "../../../server/interface/api/event-schemas.js";
import type { BrokerStats } from "../../../server/access/broker/broker-port.js";
import { eventHub } from "../../../server/interface/events/event-hub.js";
import { serverMetrics } from "../../../server/metrics.js";
import type { Log, LogFields } from "../../../shared/ports.js";

const examples = join(import.meta.dirname, "../../../../examples");

describe("the server's metrics", () => {
  const brokerStats: BrokerStats = {
    connections: 0,
    devices: 0,
    queuedBytes: 0,
    retainedBytes: 0,
    received: 0,
    sent: 0,
    dropped: 0,
  };

  function metricsOf(context: TestContext): {
    readonly events: ReturnType<typeof eventHub>;
    readonly valueOf: (name: string) => Promise<number | undefined>;
    readonly text: () => Promise<string>;
    readonly errors: readonly { readonly event: string; readonly fields: LogFields | undefined }[];
  } {
    const stopping = new AbortController();
    context.after(() => stopping.abort());
    const errors: { event: string; fields: LogFields | undefined }[] = [];
    const log: Log = {
      debug: () => undefined,
      info: () => undefined,
      warn: () => undefined,
      error: (event, fields) => errors.push({ event, fields }),
      child: () => log,
    };
    const events = eventHub({ now: () => 7 });
    const registry = serverMetrics(
      {
        events,
        broker: () => brokerStats,
        fleets: () => [
          {
            fleet: "f",
            onlineCount: 2,
            figures: {
              receptions: 0,
              parked: 0,
              confirming: 0,
              spoolBytes: 0,
              facts: 11,
              devices: () => ({ enrolled: 4, quarantined: 1 }),
              rollouts: () => ({ paused: 1 }),
            },
          },
        ],
        problems: () => Promise.resolve([{ code: "DISK_FULL" }]),
        refusedConnections: () => [{ fleet: "f", code: "CERTIFICATE_ENDED", count: 7 }],
        droppedLogLines: () => 3,
        secondsWithoutDescriptors: () => 5,
        memory: () => ({ usedBytes: 3e9, limitBytes: 4e9, fullAtMs: 1.9e12 }),
        freeDiskBytes: () => Promise.resolve(5),
        log,
      },
      stopping.signal,
    );
    const valueOf = async (name: string): Promise<number | undefined> => {
      // The events are counted on the event loop.
      await setImmediate();
      const metric = await registry.getSingleMetric(name)?.get();
      return metric?.values[0]?.value;
    };
    return { events, valueOf, errors, text: () => registry.metrics() };
  }

  const recorded = (wireBytes: number): Parameters<ReturnType<typeof eventHub>["emit"]>[0] => ({
    event: "recorded",
    fleet: "f",
    device: "d",
    line: "l",
    versionId: "v",
    name: "n",
    version: 1,
    wireBytes,
    tensorBytes: 10,
    tookMs: 5,
  });

  it("count the events of recorded versions", async (context) => {
    const { events, valueOf, errors } = metricsOf(context);
    events.emit(recorded(3));
    events.emit(recorded(4));
    assert.equal(await valueOf("stemma_events_total"), 2);
    assert.equal(await valueOf("stemma_recorded_wire_bytes_total"), 7);
    assert.equal(await valueOf("stemma_recorded_model_bytes_total"), 20);
    assert.deepEqual(errors, []);
  });

  it("contain the lost lines of the log and the free space", async (context) => {
    const { valueOf, text } = metricsOf(context);
    assert.equal(await valueOf("stemma_log_lines_dropped"), 3);
    assert.match(await text(), /^stemma_connections_refused_total\{fleet="f",code="CERTIFICATE_ENDED"\} 7$/m);
    assert.equal(await valueOf("stemma_seconds_without_descriptors"), 5);
    assert.equal(await valueOf("stemma_memory_used_bytes"), 3e9);
    assert.equal(await valueOf("stemma_memory_limit_bytes"), 4e9);
    assert.equal(await valueOf("stemma_memory_full_timestamp_seconds"), 1.9e9);
    assert.equal(await valueOf("stemma_disk_free_bytes"), 5);
  });

  it("contain devices by state, rollouts by phase, the journal's length and the server's problems", async (context) => {
    const text = await metricsOf(context).text();
    for (const line of [
      'stemma_devices{fleet="f",state="enrolled"} 4',
      'stemma_devices{fleet="f",state="revoked"} 0',
      'stemma_devices{fleet="f",state="quarantined"} 1',
      'stemma_rollouts{fleet="f",phase="paused"} 1',
      'stemma_rollouts{fleet="f",phase="running"} 0',
      'stemma_journal_facts{fleet="f"} 11',
      'stemma_problems{code="DISK_FULL"} 1',
    ])
      assert.ok(text.split("\n").includes(line), line);
  });

  it("are all that the example rules and the example dashboard name, with their labels", async (context) => {
    const text = await metricsOf(context).text();
    const rules = readFileSync(join(examples, "prometheus/stemma-alerts.yml"), "utf8");
    const dashboard = readFileSync(join(examples, "grafana/stemma.json"), "utf8");
    JSON.parse(dashboard);
    const { groups } = parse(rules) as {
      groups: { rules: { alert: string; annotations: { description: string } }[] }[];
    };
    for (const { alert, annotations } of groups.flatMap((group) => group.rules))
      assert.match(annotations.description, /stemma |Restart|Free/, `${alert} says what to do`);
    const named = new Set(`${rules}${dashboard}`.match(/stemma_[a-z_]+/g));
    assert.ok(named.size > 8);
    for (const name of named) {
      const family = name.replace(/_(?:bucket|sum|count)$/, "");
      assert.ok(text.includes(`# TYPE ${family} `), name);
    }
    const events = new Set(serverEvent.options.map(({ shape }) => shape.event.value));
    for (const [, event] of `${rules}${dashboard}`.matchAll(/event=\\?"([a-z-]+)\\?"/g))
      assert.ok(events.has(event as (typeof serverEvent.options)[number]["shape"]["event"]["value"]), event);
  });

  it("go on counting after an event that cannot be counted, and log the first one only", async (context) => {
    const { events, valueOf, errors } = metricsOf(context);
    // A counter cannot decrease, so this event cannot be counted.
    events.emit(recorded(-1));
    events.emit(recorded(-2));
    events.emit(recorded(4));
    assert.equal(await valueOf("stemma_recorded_wire_bytes_total"), 4);
    assert.deepEqual(
      errors.map(({ event, fields }) => [event, fields?.["event"]]),
      [["event-not-counted", "recorded"]],
    );
  });
});
