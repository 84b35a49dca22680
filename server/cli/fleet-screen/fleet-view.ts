/** The state of a live fleet screen: its devices and rollouts as answered, and later events. Pure. */
import type { RolloutAnswer } from "../../interface/api/rollouts/rollout-definitions.js";
import type { CallOutput } from "../../interface/api/server-operations.js";
import type { ServerEvent } from "../../interface/api/event-schemas.js";
import { counted } from "../../../shared/printable.js";

export type ListedDevice = CallOutput<"devices">[number];

/** The present activity of a device, by its latest event. */
export interface Doing {
  readonly text: string;
  readonly atMs: number;
  /** The transfer that is under way. */
  readonly transfer?: {
    readonly id: string;
    readonly bytes: number;
    readonly totalBytes: number;
    /** Averaged over the last events; undefined after the first one. */
    readonly bytesPerSecond: number | undefined;
  };
}

export interface FleetView {
  readonly fleet: string;
  readonly devices: readonly ListedDevice[];
  readonly rollouts: readonly RolloutAnswer[];
  readonly doing: ReadonlyMap<string, Doing>;
  /** Newest last. */
  readonly notes: readonly string[];
}

const maxNotes = 200;
/** Share of the newest measurement in a rate: high enough to follow, low enough to read. */
const rateWeight = 0.4;

export function emptyView(fleet: string): FleetView {
  return { fleet, devices: [], rollouts: [], doing: new Map(), notes: [] };
}

/** The view after an event of its fleet. */
export function viewAfter(view: FleetView, event: ServerEvent): FleetView {
  if (event.fleet !== view.fleet && event.event !== "missed") return view;
  const line = eventLine(event);
  const notes = line === undefined ? view.notes : [...view.notes, line].slice(-maxNotes);
  if (!("device" in event)) return { ...view, notes };
  const doing = new Map(view.doing);
  const known = doing.get(event.device);
  if (event.event === "device-disconnected") doing.delete(event.device);
  else if (event.event === "transfer") doing.set(event.device, transferring(known, event));
  else {
    const text = describeEvent(event);
    if (text !== undefined) doing.set(event.device, { text, atMs: event.atMs });
  }
  return { ...view, doing, notes };
}

type TransferEvent = Extract<ServerEvent, { readonly event: "transfer" }>;

function transferring(known: Doing | undefined, event: TransferEvent): Doing {
  const { transfer: id, bytes, totalBytes, atMs } = event;
  const before = known?.transfer?.id === id ? known.transfer : undefined;
  const elapsedMs = atMs - (known?.atMs ?? atMs);
  const now =
    before === undefined || elapsedMs <= 0 ? undefined : ((bytes - before.bytes) * 1000) / elapsedMs;
  const last = before?.bytesPerSecond;
  const bytesPerSecond =
    now === undefined ? last : last === undefined ? now : last + rateWeight * (now - last);
  return { text: "sends", atMs, transfer: { id, bytes, totalBytes, bytesPerSecond } };
}

/** Bytes a second that all devices send together, by transfers that went on lately. */
export function totalRate(view: FleetView, nowMs: number): number {
  let sum = 0;
  for (const { transfer, atMs } of view.doing.values())
    if (transfer?.bytesPerSecond !== undefined && nowMs - atMs < 5000) sum += transfer.bytesPerSecond;
  return sum;
}

/** Describes a device's activity after an event; undefined for events that say nothing about it. */
function describeEvent(event: ServerEvent): string | undefined {
  switch (event.event) {
    case "device-connected":
      return "connected";
    case "device-quarantined":
      return "quarantined";
    case "announced":
      return `announced ${event.name}`;
    case "recorded":
    case "stored":
    case "released":
      return `${event.name}:${event.version} ${event.event}`;
    case "claimed":
      return `${event.name} claimed`;
    case "offered":
      return `offered a model to ${event.line}`;
    case "activated":
      return `switched ${event.line}`;
    case "refused":
      return `refused: ${event.code}`;
    case "connection-refused":
      return `not admitted: ${event.code}`;
    case "damaged":
      return `DAMAGED: ${event.code}`;
    case "device-event":
      return event.name;
    default:
      return undefined;
  }
}

/** An event as a line; undefined for those of which there are too many to read. */
export function eventLine(event: ServerEvent): string | undefined {
  const time = new Date(event.atMs).toISOString().slice(11, 19);
  if (event.event === "missed") return `${time} ${counted(event.count, "event was", "events were")} missed`;
  if (event.event === "device-disconnected") return `${time} ${event.device} disconnected`;
  if (!("device" in event) || event.event === "stored" || event.event === "wanted") return undefined;
  const text = describeEvent(event);
  if (text === undefined) return undefined;
  const more = event.event === "device-event" || event.event === "refused" ? eventText(event) : "";
  return `${time} ${event.device} ${text}${more}`.replaceAll(/[\r\n]+/g, " ");
}

function eventText(event: Extract<ServerEvent, { readonly event: "device-event" | "refused" }>): string {
  return `: ${event.event === "refused" ? event.message : event.text}`;
}
