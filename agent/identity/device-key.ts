/**
 * Opens the key that this device signs with (the port DeviceKey). It is the one in its enrolment file, or the
 * one of the program that agent.json names. Both prove the same; a program's can be in hardware, so that a
 * copy of the file signs nothing.
 */
import { StemmaError } from "../../shared/errors.js";
import type { Enrolment } from "../../shared/trust/enrolment.js";
import { keyOfSeed, type DeviceKey } from "../../shared/trust/keys.js";

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
  const short = `${devicePublicKey.slice(0, 16)}…`;
  const again = `invite it again (\`stemma device enroll ${device}\` at the server) and run \`stemma agent enroll\``;
  const why =
    program === undefined
      ? `${device} is enrolled with the key ${short}, which is not in its enrolment file. Name the program that has it as deviceKey of agent.json`
      : `deviceKey of agent.json is the key ${program.publicKey.slice(0, 16)}…, and ${device} is enrolled with ${short}${deviceSeed === undefined ? "" : ", whose private part is in its enrolment file"}. ${deviceSeed === undefined ? "Name the program that has it" : "Leave deviceKey out"}`;
  throw new StemmaError("CONFIG_INVALID", `${why}; or ${again}.`);
}
