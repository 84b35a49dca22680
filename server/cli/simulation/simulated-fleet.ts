/**
 * The simulated devices on a server: which fleet may have them, how they are enrolled, how they go again.
 *
 * Simulated devices are only ever in a fleet of their own. Its name says so, and so do theirs; a fleet that has any
 * other device is left alone. So nobody who mistypes a fleet or a server can put them among vehicles, or remove one.
 */
import { mapConcurrent } from "../../../shared/concurrency/map-concurrent.js";
import { StemmaError } from "../../../shared/errors.js";
import { assignLinks, type LinkShare } from "../../../shared/simulation/link-shapes.js";
import type { DeviceOrder, SimulatedAnswers } from "../../../shared/simulation/simulation-messages.js";
import { parseInvitation } from "../../../shared/trust/certificates/invitation.js";
import { parseEnrolment } from "../../../shared/trust/enrolment.js";
import type { ServerOperations } from "../../interface/api/server-operations.js";

const fleetName = /^sim(?:-|$)/;
const devicePrefix = "sim-";
/** Operations at the same time: they share their fsyncs. */
const atOnce = 16;

/** @throws NOT_ALLOWED */
export function requireSimulationName(fleet: string): void {
  if (!fleetName.test(fleet))
    throw new StemmaError(
      "NOT_ALLOWED",
      `The fleet ${fleet} was not touched: simulated devices have fleets of their own, whose names are sim or begin with sim-. Name one with --fleet sim-${fleet}.`,
      { fleet },
    );
}

/** @throws NOT_ALLOWED where the name says otherwise, or another device is in it */
export async function requireSimulationFleet(
  operations: Pick<ServerOperations, "devices" | "health">,
  fleet: string,
): Promise<readonly string[]> {
  requireSimulationName(fleet);
  const { fleets = [] } = await operations.health();
  if (!fleets.includes(fleet)) return [];
  const names = (await operations.devices({ fleet })).map(({ device }) => device);
  const other = names.find((name) => !name.startsWith(devicePrefix));
  if (other !== undefined)
    throw new StemmaError(
      "NOT_ALLOWED",
      `The fleet ${fleet} was not touched: it has the device ${other}, which is not a simulated one. Name a fleet of its own with --fleet.`,
      { fleet, device: other },
    );
  return names;
}

export function deviceNames(count: number): readonly string[] {
  const digits = Math.max(4, String(count).length);
  return Array.from({ length: count }, (_, at) => devicePrefix + String(at + 1).padStart(digits, "0"));
}

export interface FleetRequest {
  readonly fleet: string;
  readonly line: string;
  readonly profile: string;
  readonly links: readonly LinkShare[];
  readonly seed: number;
  readonly changes: number;
  readonly answersOf: (index: number) => SimulatedAnswers;
  /** The model that the line starts from. */
  readonly model: string;
}

/**
 * Lets devices in as the server does it: with invitations, for which they make keys of their own, or with tokens.
 * Resolves with what their processes need.
 */
export async function admitSimulated(
  operations: Pick<ServerOperations, "addresses" | "enroll" | "invite">,
  names: readonly string[],
  request: FleetRequest,
): Promise<readonly DeviceOrder[]> {
  const { fleet, line, profile, seed, changes, model } = request;
  const links = assignLinks(request.links, names.length);
  const invites = (await operations.addresses()).authorities !== undefined;
  return await mapConcurrent(names.entries(), atOnce, async ([index, device]) => {
    const subject = { fleet, device, lines: [line], profile, initial: { [line]: model } };
    return {
      device,
      line,
      profile,
      changes,
      admission: invites
        ? { invitation: parseInvitation(await operations.invite(subject)) }
        : { enrolment: parseEnrolment(await operations.enroll(subject)) },
      link: links[index] as DeviceOrder["link"],
      seed: seed + 7919 * (index + 1),
      savesAtMs: [],
      answers: request.answersOf(index),
    };
  });
}

/** Gives each device the name of its link as a label. */
export async function labelLinks(
  operations: Pick<ServerOperations, "labelDevices">,
  fleet: string,
  orders: readonly DeviceOrder[],
): Promise<void> {
  await mapConcurrent(orders, atOnce, ({ device, link }) =>
    operations.labelDevices({ fleet, device, labels: { link: link.name } }),
  );
}

/** Revokes these devices and takes them out of the lists. Repeated after a kill, it goes on. */
export async function removeSimulated(
  operations: Pick<ServerOperations, "revoke" | "removeDevice">,
  fleet: string,
  names: readonly string[],
): Promise<void> {
  requireSimulationName(fleet);
  const because = "the simulation has ended";
  await mapConcurrent(names, atOnce, async (device) => {
    await operations.revoke({ fleet, device, because, evenIfClaimed: true });
    await operations.removeDevice({ fleet, device, because });
  });
}
