/** Devices that an operation names, and what they answer instead of a result. */
import { isErrorCode, StemmaError } from "../../../shared/errors.js";
import type { DeviceSummary } from "../../storage/repository/answers/device-answers.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { noSuchDevice } from "./device-errors.js";

/** @throws DEVICE_UNKNOWN also for a device that was removed */
export function requireDevice(repository: FleetRepository, device: string): DeviceSummary {
  const found = repository.device(device);
  if (found === undefined || found.removed !== undefined)
    throw noSuchDevice(repository.fleet, device, found?.removed?.atMs);
  return found;
}

/** Makes the error for a device's refusal, with its code where this server knows it. */
export function refusedBy(device: string, code: string, result: unknown): StemmaError {
  const message = `The device ${device} did not do it: ${messageOfResult(result) ?? code}`;
  return new StemmaError(isErrorCode(code) ? code : "NOT_ALLOWED", message, { device });
}

/** Returns the message in a device's answer to a command; undefined where it contains none. */
export function messageOfResult(result: unknown): string | undefined {
  if (typeof result === "string") return result;
  if (typeof result === "object" && result !== null && "message" in result) return String(result.message);
  return undefined;
}
