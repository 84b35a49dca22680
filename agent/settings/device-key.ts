/**
 * The setting of agent.json that names the program which has this device's key, where that is not in the enrolment
 * file. (docs/certificates.md, "A key in a program")
 */
import * as z from "zod";
import { hexKey } from "../../shared/trust/enrolment-fields.js";
import { execSchema } from "../../shared/programs/command-settings.js";

export const deviceKeySchema = z.strictObject({
  exec: execSchema,
  /** Ed25519: the 32 raw bytes. */
  publicKey: hexKey,
  /** Seconds after which it is ended, and has failed. */
  timeoutSeconds: z.number().int().min(1).max(300).default(30),
});
export type DeviceKeySettings = z.infer<typeof deviceKeySchema>;
