/** Operations on leases: of models, which keep what work in progress reads, and of lines, which train for it alone. */
import * as z from "zod";
import { count, fleetParams, fleetPath, hash, leaseText, lineKeyText, shortText, timeMs } from "../fields.js";
import { call, type ValueOf } from "../operation.js";

const leasedModel = z.object({ versionId: hash, name: z.string(), version: count });

const lease = z
  .object({
    lease: z.string(),
    line: z.string().exactOptional().describe("The line whose devices train for the holder alone"),
    models: z
      .array(leasedModel)
      .exactOptional()
      .describe("Models of which the holder reads tensors, which no collection removes meanwhile"),
    holder: z.string().describe("The work that holds it"),
    by: z.string().exactOptional().describe("Who took it; absent: the server does not know"),
    sinceMs: timeMs.exactOptional().describe("Absent: an earlier release granted it"),
    expiresAtMs: timeMs.describe("Unless its holder renews it"),
  })
  .meta({ id: "Lease" });
export type ListedLease = ValueOf<typeof lease>;

export const leaseOperations = {
  leases: call({
    summary: "The leases of a fleet: who holds them, on what, and until when; the first to expire first",
    method: "GET",
    path: `${fleetPath}/leases`,
    right: "read",
    params: fleetParams,
    output: z.array(lease),
  }),
  leaseLine: call({
    summary: "Take a line of searches for one search or evaluation, for a minute, or renew that",
    method: "POST",
    path: `${fleetPath}/leases/line`,
    right: "deploy",
    params: fleetParams,
    body: {
      line: shortText,
      leaseKey: lineKeyText.describe(
        "16 random bytes in hex, which only the holder has, to renew the lease by",
      ),
      holder: z.string().min(1).max(200).describe("What it is for, for people"),
    },
    output: lease,
  }),
  endLease: call({
    summary: "End a lease before it expires; the work that holds a line under it ends",
    method: "POST",
    path: `${fleetPath}/leases/end`,
    right: "change-models",
    params: fleetParams,
    body: { lease: leaseText.describe("The lease to end; one that ended already changes nothing") },
    output: z.object({ lease: z.string() }),
  }),
};
