/** Operations by which people look after devices: settings, events, log, quarantine, removal. */
import { nameOneOf } from "../../../shared/missing-errors.js";
import { logPage } from "../../interface/api/devices/device-upkeep-schemas.js";
import type { CallOutput, OperationInput, ServerOperations } from "../../interface/api/server-operations.js";
import type { OperationsContext } from "../../services/context/operations-context.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { onlyRevoked } from "../../storage/repository/state/state-errors.js";
import { answerMalformed, otherCount, standsAlready } from "./device-errors.js";
import type { deviceOperations } from "./device-operations.js";
import { refusedBy, requireDevice } from "./required-device.js";

type DeviceUpkeep = Pick<
  ServerOperations,
  "setDevices" | "deviceEvents" | "deviceLogs" | "quarantineDevice" | "eraseDevices" | "removeDevice"
>;

export function deviceUpkeep(
  { fleets, live, home }: OperationsContext,
  devices: Pick<ReturnType<typeof deviceOperations>, "devices" | "device" | "command">,
): DeviceUpkeep {
  const { clock } = home.ports;
  return {
    setDevices: async ({ fleet, device, select, settings, dryRun }) => {
      const repository = await fleets.get(fleet);
      const named = await namedDevices(devices, { fleet, device, select });
      if (device !== undefined) requireDevice(repository, device);
      const { setDevices } = await import("./device-settings.js");
      return setDevices(repository, await live?.fleet(fleet), named, { settings, dryRun, atMs: clock.now() });
    },
    deviceEvents: async ({ fleet, device, before, limit = 100 }) => {
      const repository = await fleets.get(fleet);
      requireDevice(repository, device);
      const { factsAbout } = await import("./device-events.js");
      return factsAbout(repository, device, { before, limit });
    },
    deviceLogs: async ({ fleet, device, before, limit = 100, level, about, timeoutMs = 30_000 }) => {
      const { code, result } = await devices.command({
        fleet,
        device,
        name: "logs",
        body: { before, limit, level, about },
        timeoutMs,
      });
      if (code !== "" && code.toLowerCase() !== "ok") throw refusedBy(device, code, result);
      return onlyAbout(about, checkedLog(device, result));
    },
    quarantineDevice: async ({ fleet, device, quarantined, because = "by hand" }) => {
      const repository = await fleets.get(fleet);
      refuseStanding(repository, device, quarantined);
      const type = quarantined ? "quarantined" : "unquarantined";
      await repository.append({ type, atMs: clock.now(), device, because });
      if (quarantined) await (await live?.fleet(fleet))?.cutOff(device);
      return devices.device({ fleet, device });
    },
    eraseDevices: async ({ fleet, device, select, count, because = "", dryRun = false }) => {
      const repository = await fleets.get(fleet);
      const named = await namedDevices(devices, { fleet, device, select });
      const plan = await repository.planErasure(named);
      if (dryRun) return plan;
      if (select !== undefined) requireCount(named, count);
      const liveFleet = await live?.fleet(fleet);
      for (const each of [...named, ...plan.unfinished]) await liveFleet?.forgetUploads(each);
      return await repository.eraseDevices(named, because);
    },
    removeDevice: async ({ fleet, device, because = "", dryRun = false }) => {
      const repository = await fleets.get(fleet);
      const { state } = requireDevice(repository, device);
      if (dryRun && state !== "revoked") throw onlyRevoked(device, state, "removed");
      if (dryRun) return;
      await repository.append({ type: "device-removed", atMs: clock.now(), device, because });
    },
  };
}

/** @throws USAGE, and what a selection throws */
async function namedDevices(
  { devices }: Pick<ServerOperations, "devices">,
  { fleet, device, select }: Pick<OperationInput<"setDevices">, "fleet" | "device" | "select">,
): Promise<readonly string[]> {
  if ((device === undefined) === (select === undefined))
    throw nameOneOf("a device", "a selection of devices");
  if (device !== undefined) return [device];
  return (await devices({ fleet, select })).map((each) => each.device);
}

/** @throws DEVICE_UNKNOWN, NOT_ALLOWED where only an enrolled device can be quarantined and this one is not */
function refuseStanding(repository: FleetRepository, device: string, quarantined: boolean): void {
  const { state } = requireDevice(repository, device);
  if (!quarantined || state === "enrolled") return;
  throw standsAlready(device, state);
}

/** An agent of an earlier release answers all of its events. */
function onlyAbout(about: string | undefined, page: CallOutput<"deviceLogs">): CallOutput<"deviceLogs"> {
  if (about === undefined) return page;
  return { ...page, events: page.events.filter(({ fields }) => Object.values(fields).includes(about)) };
}

/** Requires the number of devices from whoever erases by a selection: it may mean others than when it was looked at. */
function requireCount(named: readonly string[], count: number | undefined): void {
  if (named.length === count) return;
  throw otherCount(named, count);
}

/** Checks a device's log, as everything that a device says. @throws ENVELOPE_MALFORMED */
function checkedLog(device: string, answer: unknown): CallOutput<"deviceLogs"> {
  const read = logPage.safeParse(answer);
  if (read.success) return read.data;
  const [issue] = read.error.issues;
  throw answerMalformed(device, "a log", issue);
}
