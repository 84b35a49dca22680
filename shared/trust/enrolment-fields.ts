/** Members that enrolments, invitations and answers to requests have in common. */
import * as z from "zod";
import { checkRoot, isName } from "../wire/topics.js";

export const name = z
  .string()
  .refine(isName, "must be letters, digits, - and _, beginning with a letter or digit, at most 64");
export const hexKey = z.string().regex(/^[0-9a-f]{64}$/, "must be 64 lower-case hex digits");
const root = z.string().refine((text) => {
  try {
    checkRoot(text);
    return true;
  } catch {
    return false;
  }
}, "must be one or two names separated by /");
const mqttUrl = z.url({ protocol: /^mqtts?$/ });
const httpUrl = z.url({ protocol: /^https?$/ });

/** The addresses at which a device reaches its server. */
export const connectionSchema = {
  /** The addresses, tried in order. */
  mqtt: z.array(mqttUrl).min(1).max(8),
  /** The URL for HTTP; absent where devices do not use HTTP. */
  http: httpUrl.optional(),
  /**
   * PEM of the authority that signs the certificate of an external broker, or of a server whose certificate is not its
   * own authority's; absent: the system's authorities.
   */
  ca: z
    .string()
    .max(64 * 1024)
    .optional(),
  root,
};

/** The policies of a device for the versions that it installs, strictest first. */
export const releasePolicies = ["required", "accepted", "off"] as const;
export type ReleasePolicy = (typeof releasePolicies)[number];

/** The fleet's first root of releases, which a device pins at first use, and what is asked of it. */
export const pinnedReleasesSchema = z.strictObject({
  root: z.string().max(64 * 1024),
  policy: z.enum(releasePolicies),
});
