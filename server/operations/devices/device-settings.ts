/** Sets settings on devices: as facts at once, on the devices when they are connected. */
import { checkSetting, settingsAfter, type SettingValue } from "../../../shared/wire/device-settings.js";
import type { CallOutput } from "../../interface/api/server-operations.js";
import type { LiveFleet } from "../../services/context/operations-context.js";
import type { SettingsSummary } from "../../storage/repository/answers/device-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { noSettingNamed } from "./device-errors.js";

export interface SettingsChange {
  readonly settings: Readonly<Record<string, SettingValue | null>>;
  readonly dryRun?: boolean | undefined;
  /** Milliseconds since 1970. */
  readonly atMs: number;
}

/**
 * Sets them on all of the devices, or on none.
 * @param devices names of devices of the fleet
 * @throws SETTING_INVALID, USAGE
 */
export async function setDevices(
  repository: FleetRepository,
  live: LiveFleet | undefined,
  devices: readonly string[],
  { settings, dryRun = false, atMs }: SettingsChange,
): Promise<CallOutput<"setDevices">> {
  const changes = Object.fromEntries(
    Object.entries(settings).map(([key, value]) => [key, value === null ? null : checkSetting(key, value)]),
  );
  if (Object.keys(changes).length === 0) throw noSettingNamed();
  if (!dryRun && devices.length > 0) {
    await repository.append(
      ...devices.map((device) => ({ type: "settings" as const, atMs, device, settings: changes })),
    );
    for (const device of devices) live?.settingsChanged(device);
  }
  return devices.map((device) => {
    const known = repository.device(device)?.settings ?? noSettings;
    const after = dryRun ? { ...known, desired: settingsAfter(known.desired, changes) } : known;
    return { device, settings: after, online: live?.isOnline(device) ?? false };
  });
}

const noSettings: SettingsSummary = { desired: {}, reported: null };
