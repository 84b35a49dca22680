/** Summarises a device for listings. Pure. */
import type { DeviceSummary } from "../fleet-repository.js";
import { newestActivation, type DeviceState } from "./state.js";

export function deviceSummary(device: DeviceState): DeviceSummary {
  const active: Record<string, DeviceSummary["active"][string]> = {};
  for (const [line, history] of device.activations) {
    const newest = newestActivation(history);
    if (newest === undefined) continue;
    const { versionId, deviceAtMs, deviceClockErrorMs, serverAtMs } = newest;
    Object.defineProperty(active, line, {
      value: { versionId, deviceAtMs, deviceClockErrorMs, serverAtMs },
      enumerable: true,
    });
  }
  return {
    device: device.device,
    profile: device.profile,
    lines: device.lines,
    enrolledAtMs: device.enrolledAtMs,
    state: device.status,
    session: device.session,
    publicKey: device.publicKey,
    tokenHash: device.tokenHash,
    active,
  };
}
