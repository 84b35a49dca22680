/** The devices of a fleet that take part in a search: those of a selection that are connected and have its line. */
import { SerialQueue } from "../../../shared/concurrency/serial-queue.js";
import { StemmaError } from "../../../shared/errors.js";
import type { Clock, Files, Random } from "../../../shared/ports.js";
import type { ServerOperations } from "../../interface/api/server-operations.js";
import type { CandidateTrainer } from "./candidate.js";
import { DeviceEvents } from "./device-events.js";
import { noWorker, refuseOtherLine } from "./search-errors.js";
import { HeldLine } from "./held-line.js";
import { DeviceTrainer, retireStarts } from "./train-on-device.js";

/** Devices of one search: each candidate holds a lease, and a fleet has at most 64 of those. */
export const maxSearchDevices = 48;

export interface SearchDevicesOptions {
  readonly fleet: string;
  /** The name of the candidates' models. */
  readonly name: string;
  /** Registered data, on whose held-out samples candidates are measured. */
  readonly data: string;
  readonly select: string;
  /** A line that its owner gave to searches by enrolling the device with it; its name begins with "search". */
  readonly line: string;
  readonly patienceMs: number;
  readonly clock: Clock;
  readonly random: Random;
  /** The search, for people. */
  readonly holder: string;
  /** The file that keeps the key of the line's lease. */
  readonly kept?: { readonly files: Files; readonly path: string };
}

export interface SearchDevices {
  readonly trainers: readonly CandidateTrainer[];
  /** The selected devices that take no part, and why. */
  readonly others: readonly { readonly device: string; readonly why: string }[];
  close(): Promise<void>;
}

/**
 * The devices of a selection that can take part, and the others.
 * @throws USAGE, SEARCH_WORKER_LOST where no device can take part; SELECTION_INVALID
 */
export async function ableDevices(
  operations: Pick<ServerOperations, "devices">,
  { fleet, select, line }: Pick<SearchDevicesOptions, "fleet" | "select" | "line">,
): Promise<{ readonly able: readonly string[]; readonly others: SearchDevices["others"] }> {
  refuseOtherLine(line);
  const found = (await operations.devices({ fleet, select })).map((each) => ({
    device: each.device,
    why: !each.lines.includes(line)
      ? `it has no line "${line}"`
      : each.state !== "enrolled"
        ? `it is ${each.state}`
        : each.online
          ? undefined
          : "it is not connected",
  }));
  const able = found.filter(({ why }) => why === undefined).map(({ device }) => device);
  const others = [
    ...found.flatMap(({ device, why }) => (why === undefined ? [] : [{ device, why }])),
    ...able.slice(maxSearchDevices).map((device) => ({ device, why: "there are enough" })),
  ];
  if (able.length === 0) throw noDevice(others, { select, line, fleet });
  return { able: able.slice(0, maxSearchDevices), others };
}

/** @throws as ableDevices; TRAINING_REFUSED where another search has the line */
export async function devicesOfSearch(
  operations: ServerOperations,
  { select, clock, random, holder, kept, ...options }: SearchDevicesOptions,
): Promise<SearchDevices> {
  const { fleet, line } = options;
  const { able, others } = await ableDevices(operations, { fleet, line, select });
  const held = await HeldLine.take({ operations, fleet, line, holder, clock, random, kept });
  try {
    await retireStarts(operations, options);
  } catch (error) {
    await held.end();
    throw error;
  }
  const events = new DeviceEvents(operations, clock);
  const evaluations = new SerialQueue();
  return {
    trainers: able.map(
      (device) => new DeviceTrainer({ ...options, operations, events, evaluations, clock, held, device }),
    ),
    others,
    close: async () => {
      await events.close();
      await held.end();
    },
  };
}

function noDevice(
  others: SearchDevices["others"],
  { select, line, fleet }: Pick<SearchDevicesOptions, "select" | "line" | "fleet">,
): StemmaError {
  const [first] = others;
  const why =
    first === undefined
      ? `the selection ${JSON.stringify(select)} means no device of the fleet ${fleet} (stemma device list)`
      : `${first.device}: ${first.why}${others.length === 1 ? "" : `, and ${others.length - 1} more`}`;
  return noWorker(why, line);
}
