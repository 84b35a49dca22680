/** Operations on the certificate authorities of a fleet's owner. */
import * as z from "zod";
import { count, fleetParams, fleetPath, reasonText, shortText, timeMs } from "../fields.js";
import { call } from "../operation.js";

const authoritiesPath = `${fleetPath}/authorities`;
const authorityText = shortText.describe("Name of the authority in this fleet");
const authorityParams = { ...fleetParams, authority: authorityText };
const onEndedList = z
  .enum(["serve", "refuse"])
  .describe(
    "What devices get when a revocation list has ended and no newer one was given: they are served by the last one, or refused. No device enrols meanwhile",
  );

const shownAuthority = z
  .object({
    authority: shortText,
    atMs: timeMs.describe("When it was added, or replaced"),
    by: shortText.exactOptional(),
    nameForm: z.string().describe("How its certificates name a device"),
    onEndedList,
    certificates: z.array(
      z.object({ subject: z.string(), sha256: z.string(), notAfterMs: timeMs.describe("When it ends") }),
    ),
    lists: z
      .array(
        z.object({
          issuer: z.string().describe("Hash of the key that signed it"),
          number: z.string(),
          thisUpdateMs: timeMs,
          nextUpdateMs: timeMs.describe("When the next one has to be there"),
          revoked: count.describe("Certificates on it"),
        }),
      )
      .describe("The newest revocation list of each issuer"),
    devices: count.describe("Enrolled devices that have its certificates"),
    warnings: z.array(z.string()).describe("What its owner has to see to"),
  })
  .meta({ id: "Authority" });

export const authorityOperations = {
  authorities: call({
    summary: "The certificate authorities of the fleet's owner",
    method: "GET",
    path: authoritiesPath,
    right: "read",
    params: fleetParams,
    output: z.array(shownAuthority),
  }),
  addAuthority: call({
    summary: "Let the certificates of an authority name devices of this fleet",
    method: "POST",
    path: authoritiesPath,
    right: "administer",
    params: fleetParams,
    body: {
      authority: authorityText,
      certificates: z
        .string()
        .max(64 * 1024)
        .describe("PEM: its certificates, without any key"),
      nameForm: z
        .string()
        .max(200)
        .optional()
        .describe(
          "How its certificates name a device, such as uri:urn:oem:vehicle:{device}; default cn:{device}",
        ),
      onEndedList: onEndedList.optional(),
      replace: z
        .boolean()
        .optional()
        .describe("Whether it takes the place of an authority that has this name already"),
      dryRun: z.boolean().optional().describe("Check, change nothing"),
    },
    output: shownAuthority,
  }),
  removeAuthority: call({
    summary: "Trust an authority no more; its devices are cut off at once",
    method: "POST",
    path: `${authoritiesPath}/:authority/remove`,
    right: "administer",
    params: authorityParams,
    body: {
      because: reasonText.optional(),
      dryRun: z.boolean().optional().describe("Answer which devices would be cut off, change nothing"),
    },
    output: z.object({ devices: z.array(shortText).describe("Those that had its certificates") }),
  }),
  takeRevocationList: call({
    summary:
      "Take a revocation list of an authority; devices whose certificates are on it are cut off at once",
    method: "POST",
    path: `${authoritiesPath}/:authority/lists`,
    right: "enrol",
    params: authorityParams,
    body: {
      list: z
        .string()
        .describe(
          "PEM: the list, and certificates between its issuer and the authority where there are some",
        ),
      dryRun: z.boolean().optional().describe("Check, change nothing"),
    },
    output: z.object({
      number: z.string(),
      nextUpdateMs: timeMs,
      revoked: count.describe("Certificates on it"),
      added: count.describe("Of them, those that were not revoked before"),
      restored: count.describe("Certificates that were revoked before and are not on it"),
      isKnown: z.boolean().describe("Whether this list was taken already, so that nothing changed"),
      devices: z.array(shortText).describe("Devices whose certificate is on it"),
    }),
    maxBodyBytes: 16 * 1024 * 1024,
  }),
};
