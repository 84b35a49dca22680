/**
 * Formats the server's metrics for Prometheus. Counters and histograms count the server's events; gauges read
 * the broker's and the fleets' figures when the metrics are requested.
 */
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from "prom-client";
import type { BrokerStats } from "./access/broker/broker-port.js";
import type { ServerEvent } from "./interface/api/event-schemas.js";
import type { IngestFigures } from "./fleet/ingest/fleet-ingest.js";
import type { EventHub } from "./interface/events/event-hub.js";
import type { Log } from "../shared/ports.js";

/** A fleet's figures at this moment. */
export interface MeasuredFleet {
  readonly fleet: string;
  readonly onlineCount: number;
  readonly figures: IngestFigures;
}

const rolloutPhases = ["created", "running", "paused", "aborted", "undone", "done"] as const;
const deviceStates = ["enrolled", "revoked", "quarantined"] as const;

/** The sources of the metrics' values. */
export interface MetricSources {
  readonly events: EventHub;
  /** Called when the metrics are requested. */
  broker(): BrokerStats;
  /** Called when the metrics are requested. */
  fleets(): readonly MeasuredFleet[];
  /** Refused connections since the start; fleet "": they named none. Called when the metrics are requested. */
  refusedConnections(): readonly { readonly fleet: string; readonly code: string; readonly count: number }[];
  /** Codes of what keeps the server from doing all of its work. Called when the metrics are requested. */
  problems(): Promise<readonly { readonly code: string }[]>;
  /** Free bytes on the home's disk. Called when the metrics are requested. */
  freeDiskBytes(): Promise<number>;
  /** Lines of the log that could not be written since the start. Called when the metrics are requested. */
  droppedLogLines(): number;
  /** Seconds since the start without a free file descriptor. Called when the metrics are requested. */
  secondsWithoutDescriptors(): number;
  /** The memory that is full first, and when. Called when the metrics are requested. */
  memory(): {
    readonly usedBytes: number;
    readonly limitBytes: number;
    readonly fullAtMs: number | undefined;
  };
  readonly log: Log;
}

/** @param signal ends the counting of events */
export function serverMetrics(sources: MetricSources, signal: AbortSignal): Registry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry, prefix: "stemma_" });
  addBrokerGauges(registry, sources);
  addFleetGauges(registry, sources);
  addMachineGauges(registry, sources);
  void countEvents(sources, eventCounters(registry), signal);
  return registry;
}

/**
 * Counts events until the signal aborts. An event that cannot be counted does not keep later ones from being
 * counted; only the first such error is logged, because the same cause may affect many events.
 */
async function countEvents(
  { events, log }: MetricSources,
  count: (event: ServerEvent) => void,
  signal: AbortSignal,
): Promise<void> {
  let hasFailed = false;
  for await (const event of events.listen(signal)) {
    try {
      count(event);
    } catch (error) {
      if (!hasFailed) log.error("event-not-counted", { event: event.event, error });
      hasFailed = true;
    }
  }
}

/** Adds the metrics of events. Returns a function that counts one event. */
function eventCounters(registry: Registry): (event: ServerEvent) => void {
  const registers = [registry];
  const eventCount = new Counter({
    name: "stemma_events_total",
    help: "Events of the server, by kind",
    labelNames: ["fleet", "event"],
    registers,
  });
  const refusals = new Counter({
    name: "stemma_refusals_total",
    help: "Requests and uploads of devices that the server refused, by error code",
    labelNames: ["fleet", "code"],
    registers,
  });
  const wireBytes = new Counter({
    name: "stemma_recorded_wire_bytes_total",
    help: "Bytes received over the network for recorded versions",
    labelNames: ["fleet"],
    registers,
  });
  const modelBytes = new Counter({
    name: "stemma_recorded_model_bytes_total",
    help: "Bytes of all tensors of recorded versions, as full snapshots would need",
    labelNames: ["fleet"],
    registers,
  });
  const recordedSeconds = new Histogram({
    name: "stemma_recorded_seconds",
    help: "Seconds from a version's announcement until its fact is recorded and fsynced",
    labelNames: ["fleet"],
    buckets: [0.01, 0.05, 0.1, 0.5, 1, 5, 30, 120, 600],
    registers,
  });
  return (event) => {
    const { fleet } = event;
    eventCount.inc({ fleet, event: event.event });
    if (event.event === "refused") refusals.inc({ fleet, code: event.code });
    if (event.event === "recorded") {
      wireBytes.inc({ fleet }, event.wireBytes);
      modelBytes.inc({ fleet }, event.tensorBytes);
      recordedSeconds.observe({ fleet }, event.tookMs / 1000);
    }
  };
}

function addBrokerGauges(
  registry: Registry,
  { broker, refusedConnections }: Pick<MetricSources, "broker" | "refusedConnections">,
): void {
  const registers = [registry];
  new Counter({
    name: "stemma_connections_refused_total",
    help: "Connections that the broker refused, by error code",
    labelNames: ["fleet", "code"],
    registers,
    collect() {
      this.reset();
      for (const { fleet, code, count } of refusedConnections()) this.inc({ fleet, code }, count);
    },
  });
  new Gauge({
    name: "stemma_connections",
    help: "Open MQTT connections",
    registers,
    collect() {
      this.set(broker().connections);
    },
  });
  new Gauge({
    name: "stemma_broker_queued_bytes",
    help: "Bytes of received messages that wait for their handler",
    registers,
    collect() {
      this.set(broker().queuedBytes);
    },
  });
}

function addMachineGauges(
  registry: Registry,
  {
    droppedLogLines,
    secondsWithoutDescriptors,
    freeDiskBytes,
    memory,
    problems,
  }: Omit<MetricSources, "events" | "broker" | "fleets" | "refusedConnections" | "log">,
): void {
  const addMemoryGauge = (name: string, help: string, value: () => number): void => {
    new Gauge({
      name,
      help,
      registers: [registry],
      collect() {
        this.set(value());
      },
    });
  };
  addMemoryGauge(
    "stemma_memory_used_bytes",
    "Bytes in use of the memory that is full first",
    () => memory().usedBytes,
  );
  addMemoryGauge(
    "stemma_memory_limit_bytes",
    "Bytes of that memory; models are refused from 85 % on",
    () => memory().limitBytes,
  );
  addMemoryGauge(
    "stemma_memory_full_timestamp_seconds",
    "When models will be refused at the present rate, in seconds since 1970; 0: not known, or never",
    () => (memory().fullAtMs ?? 0) / 1000,
  );
  new Gauge({
    name: "stemma_problems",
    help: "What keeps the server from doing all of its work, by code",
    labelNames: ["code"],
    registers: [registry],
    async collect() {
      this.reset();
      for (const { code } of await problems()) this.inc({ code });
    },
  });
  new Gauge({
    name: "stemma_disk_free_bytes",
    help: "Free bytes on the disk of the server's home",
    registers: [registry],
    async collect() {
      this.set(await freeDiskBytes());
    },
  });
  new Gauge({
    name: "stemma_log_lines_dropped",
    help: "Lines of the log that could not be written since the start",
    registers: [registry],
    collect() {
      this.set(droppedLogLines());
    },
  });
  new Gauge({
    name: "stemma_seconds_without_descriptors",
    help: "Seconds since the start in which the process had no file descriptor left",
    registers: [registry],
    collect() {
      this.set(secondsWithoutDescriptors());
    },
  });
}

function addFleetGauges(registry: Registry, { fleets }: Pick<MetricSources, "fleets">): void {
  const addGauge = (name: string, help: string, valueOf: (fleet: MeasuredFleet) => number): void => {
    new Gauge({
      name,
      help,
      labelNames: ["fleet"],
      registers: [registry],
      collect() {
        for (const measured of fleets()) this.set({ fleet: measured.fleet }, valueOf(measured));
      },
    });
  };
  addGauge("stemma_devices_online", "Connected devices", ({ onlineCount }) => onlineCount);
  addGauge("stemma_receptions", "Versions that are being received", ({ figures }) => figures.receptions);
  addGauge("stemma_parked", "Announced versions that wait for their base", ({ figures }) => figures.parked);
  addGauge(
    "stemma_confirmations_waiting",
    "Recorded versions that were not yet read back for verification",
    ({ figures }) => figures.confirming,
  );
  addGauge("stemma_journal_facts", "Facts in the journal", ({ figures }) => figures.facts);
  new Gauge({
    name: "stemma_devices",
    help: "Devices, by state",
    labelNames: ["fleet", "state"],
    registers: [registry],
    collect() {
      for (const { fleet, figures } of fleets()) {
        const counts = figures.devices();
        for (const state of deviceStates) this.set({ fleet, state }, counts[state] ?? 0);
      }
    },
  });
  new Gauge({
    name: "stemma_rollouts",
    help: "Rollouts, by phase",
    labelNames: ["fleet", "phase"],
    registers: [registry],
    collect() {
      for (const { fleet, figures } of fleets()) {
        const counts = figures.rollouts();
        for (const phase of rolloutPhases) this.set({ fleet, phase }, counts[phase] ?? 0);
      }
    },
  });
  addGauge("stemma_spool_bytes", "Bytes of unfinished transfers", ({ figures }) => figures.spoolBytes);
}
