/** Summarises a device for listings. Pure. */
import { defined } from "../../../../shared/defined.js";
import type { DeviceSummary } from "../answers/device-answers.js";
import { activeOn, currentGeneration, type DeviceState } from "./device-state.js";

export function deviceSummary(device: DeviceState): DeviceSummary {
  const active: Record<string, DeviceSummary["active"][string]> = {};
  for (const line of device.lastActivation.keys()) {
    const newest = activeOn(device, line);
    if (newest === undefined) continue;
    const { versionId, deviceAtMs, deviceClockErrorMs, serverAtMs, number } = newest;
    Object.defineProperty(active, line, {
      value: {
        versionId,
        deviceAtMs,
        deviceClockErrorMs,
        serverAtMs,
        ...(number === undefined ? {} : { number }),
      },
      enumerable: true,
    });
  }
  const { generation, enrolledAtMs, by } = currentGeneration(device);
  return {
    device: device.device,
    profile: device.profile,
    lines: device.lines,
    generation,
    enrolledAtMs,
    ...defined({
      enrolledBy: by,
      revoked: device.revoked,
      quarantined: device.quarantined,
      batch: device.batch,
    }),
    ...(device.waits ? { waits: true } : {}),
    ...defined({ removed: device.removed, erased: device.erased }),
    ...settingsOf(device),
    ...(device.assignments.size === 0 ? {} : { assigned: Object.fromEntries(device.assignments) }),
    ...(Object.keys(device.labels).length === 0 ? {} : { labels: device.labels }),
    ...defined({ seenAtMs: device.seenAtMs }),
    state: device.status,
    session: device.session,
    publicKey: device.publicKey,
    tokenHash: device.tokenHash,
    ...defined({ certificates: device.certificates }),
    active,
  };
}

function settingsOf({ settings, reportedSettings }: DeviceState): Pick<DeviceSummary, "settings"> {
  if (settings === undefined && reportedSettings === undefined) return {};
  return {
    settings: defined({
      desired: settings?.values ?? {},
      desiredAtMs: settings?.atMs,
      by: settings?.by,
      reported: reportedSettings?.values ?? null,
      reportedAtMs: reportedSettings?.atMs,
    }),
  };
}
