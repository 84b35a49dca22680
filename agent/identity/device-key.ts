/**
 * Opens the key that this device signs with (the port DeviceKey). It is the one in its enrolment file, or the
 * one of the program that agent.json names. Both prove the same; a program's can be in hardware, so that a
 * copy of the file signs nothing.
 */
import type { Enrolment } from "../../shared/trust/enrolment.js";
import { keyOfSeed, type DeviceKey } from "../../shared/trust/keys.js";
import { keyNotAsEnrolled } from "./identity-errors.js";

/**
 * @param program the key of the program that agent.json names
 * @throws CONFIG_INVALID where the enrolment is of another key than those there are
 */
export function deviceKeyOf(
  { device, deviceSeed, devicePublicKey }: Pick<Enrolment, "device" | "deviceSeed" | "devicePublicKey">,
  program: DeviceKey | undefined,
): DeviceKey {
  if (program?.publicKey === devicePublicKey) return program;
  if (program === undefined && deviceSeed !== undefined) return keyOfSeed(deviceSeed);
  throw keyNotAsEnrolled({ device, devicePublicKey }, program?.publicKey, deviceSeed !== undefined);
}
