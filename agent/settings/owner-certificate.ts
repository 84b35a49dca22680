/**
 * The setting of agent.json that names the device's certificate of an authority of its owner, and its key. Who issues
 * it replaces the files. (docs/own-authority.md)
 */
import { isAbsolute } from "node:path";
import * as z from "zod";

const absolutePath = z.string().max(4096).refine(isAbsolute, "must be an absolute path");

export const ownerCertificateSchema = z.strictObject({
  /** PEM: the device's certificate, then those between it and the authority. */
  file: absolutePath,
  /** PEM: its private key, not encrypted. */
  key: absolutePath,
});
export type OwnerCertificateSettings = z.infer<typeof ownerCertificateSchema>;
