/**
 * The server's figures for Prometheus. Read when asked for; counted from events and from what the parts say
 * of themselves.
 */
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from "prom-client";
import type { BrokerStats } from "./broker/broker-port.js";
import type { EventHub } from "./events/event-hub.js";

export interface MeasuredFleet {
  readonly fleet: string;
  readonly onlineCount: number;
  readonly figures: {
    readonly receptions: number;
    readonly parked: number;
    readonly confirming: number;
    readonly spoolBytes: number;
  };
}

/** @param signal ends the counting */
export function serverMetrics(
  events: EventHub,
  signal: AbortSignal,
  read: { broker(): BrokerStats; fleets(): readonly MeasuredFleet[] },
): Registry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry, prefix: "stemma_" });
  const registers = [registry];
  const counted = new Counter({
    name: "stemma_events_total",
    help: "What happened, by kind",
    labelNames: ["fleet", "event"],
    registers,
  });
  const refusals = new Counter({
    name: "stemma_refusals_total",
    help: "Refusals to devices, by code",
    labelNames: ["fleet", "code"],
    registers,
  });
  const wire = new Counter({
    name: "stemma_recorded_wire_bytes_total",
    help: "Bytes that came over the wire for recorded versions",
    labelNames: ["fleet"],
    registers,
  });
  const full = new Counter({
    name: "stemma_recorded_model_bytes_total",
    help: "Bytes that full snapshots of recorded versions would have been",
    labelNames: ["fleet"],
    registers,
  });
  const took = new Histogram({
    name: "stemma_recorded_seconds",
    help: "From announcement to fsynced fact",
    labelNames: ["fleet"],
    buckets: [0.01, 0.05, 0.1, 0.5, 1, 5, 30, 120, 600],
    registers,
  });
  new Gauge({
    name: "stemma_connections",
    help: "MQTT connections open now",
    registers,
    collect() {
      this.set(read.broker().connections);
    },
  });
  new Gauge({
    name: "stemma_broker_queued_bytes",
    help: "Bytes of messages waiting for their handler",
    registers,
    collect() {
      this.set(read.broker().queuedBytes);
    },
  });
  fleetGauge("stemma_devices_online", "Devices connected now", ({ onlineCount }) => onlineCount);
  fleetGauge("stemma_receptions", "Versions being received now", ({ figures }) => figures.receptions);
  fleetGauge("stemma_parked", "Announcements waiting for their base", ({ figures }) => figures.parked);
  fleetGauge(
    "stemma_confirmations_waiting",
    "Recorded versions not yet read back",
    ({ figures }) => figures.confirming,
  );
  fleetGauge("stemma_spool_bytes", "Bytes of unfinished transfers", ({ figures }) => figures.spoolBytes);

  function fleetGauge(name: string, help: string, value: (fleet: MeasuredFleet) => number): void {
    new Gauge({
      name,
      help,
      labelNames: ["fleet"],
      registers,
      collect() {
        for (const fleet of read.fleets()) this.set({ fleet: fleet.fleet }, value(fleet));
      },
    });
  }
  async function count(): Promise<void> {
    for await (const event of events.listen(signal)) {
      counted.inc({ fleet: event.fleet, event: event.event });
      if (event.event === "refused") refusals.inc({ fleet: event.fleet, code: event.code });
      if (event.event === "recorded") {
        wire.inc({ fleet: event.fleet }, event.wireBytes);
        full.inc({ fleet: event.fleet }, event.tensorBytes);
        took.observe({ fleet: event.fleet }, event.tookMs / 1000);
      }
    }
  }
  void count().catch(() => undefined);
  return registry;
}
