/** The devices of a fleet that take part in a search: those of a selection that are connected and have its line. */
import * as z from "zod";
import { SerialQueue } from "../../../shared/concurrency/serial-queue.js";
import { StemmaError } from "../../../shared/errors.js";
import type { Clock } from "../../../shared/ports.js";
import type { ServerOperations } from "../../interface/api/server-operations.js";
import type { CandidateTrainer } from "./candidate.js";
import { DeviceEvents } from "./device-events.js";
import { lineSearched, noWorker, notASearchLine } from "./search-errors.js";
import { DeviceTrainer, retireStarts, startNameOf } from "./train-on-device.js";

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
  /** True if no search with these settings ran before: what devices train of this name is another one's. */
  readonly isNew?: boolean;
}

export interface SearchDevices {
  readonly trainers: readonly CandidateTrainer[];
  /** The selected devices that take no part, and why. */
  readonly others: readonly { readonly device: string; readonly why: string }[];
  close(): Promise<void>;
}

/** Lines that searches may give models to, which are untrained at first: never one that does a device's work. */
const searchLine = /^search(?:[-_].*)?$/;

/**
 * The devices of a selection that can take part, and the others.
 * @throws USAGE, SEARCH_WORKER_LOST where no device can take part; SELECTION_INVALID
 */
export async function ableDevices(
  operations: Pick<ServerOperations, "devices">,
  { fleet, select, line }: Pick<SearchDevicesOptions, "fleet" | "select" | "line">,
): Promise<{ readonly able: readonly string[]; readonly others: SearchDevices["others"] }> {
  if (!searchLine.test(line)) throw notASearchLine(line);
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

const reportSchema = z.object({
  training: z.object({ line: z.string(), base: z.string().optional() }).nullable(),
});

/**
 * Refuses a line that another search or evaluation uses now: both would give its devices models, and wait for what they
 * report.
 * @param own names of the starts of this one, which may have been cut short while devices trained
 * @throws TRAINING_REFUSED
 */
export async function requireUnsearched(
  operations: Pick<ServerOperations, "command" | "model">,
  {
    fleet,
    line,
    able,
    own,
  }: Pick<SearchDevicesOptions, "fleet" | "line"> & {
    readonly able: readonly string[];
    readonly own: ReadonlySet<string>;
  },
): Promise<void> {
  const nameOfTraining = async (device: string): Promise<string | undefined> => {
    try {
      const { result } = await operations.command({ fleet, device, name: "report", body: {} });
      const { training } = reportSchema.parse(result);
      if (training?.line !== line || training.base === undefined) return undefined;
      return (await operations.model({ fleet, model: training.base })).name;
    } catch {
      // A device that cannot be asked now is waited for later, or given up.
      return undefined;
    }
  };
  const names = await Promise.all(able.map(nameOfTraining));
  for (const [at, name] of names.entries())
    if (name?.endsWith(startNameOf("")) === true && !own.has(name))
      throw lineSearched(line, able[at] ?? "", name.slice(0, -startNameOf("").length));
}

/** @throws as ableDevices; TRAINING_REFUSED where another search uses the line */
export async function devicesOfSearch(
  operations: ServerOperations,
  { select, clock, isNew = false, ...options }: SearchDevicesOptions,
): Promise<SearchDevices> {
  const { able, others } = await ableDevices(operations, { ...options, select });
  await requireUnsearched(operations, {
    ...{ fleet: options.fleet, line: options.line, able },
    own: new Set(isNew ? [] : [startNameOf(options.name)]),
  });
  await retireStarts(operations, options);
  const events = new DeviceEvents(operations, clock);
  const evaluations = new SerialQueue();
  return {
    trainers: able.map(
      (device) => new DeviceTrainer({ ...options, operations, events, evaluations, clock, device }),
    ),
    others,
    close: () => events.close(),
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
