/** Operations on storage tiers: folders that are cheap to keep and dear to read, for low-order bytes. */
import * as z from "zod";
import type { TierApplied, TierPlan } from "../../../storage/archive/tier-application.js";
import { count, errorCode, fleetParams, hash, shortText, storagePath, timeMs } from "../fields.js";
import { call, type ValueOf } from "../operation.js";

const tierName = shortText.describe("Name of the tier");
const text = z.string();

const tier = z
  .object({
    name: text,
    folder: text,
    addedAtMs: timeMs,
    error: z
      .object({ code: errorCode, message: text })
      .exactOptional()
      .describe("Why it cannot be used now; nothing is lost by that"),
    freeBytes: count.exactOptional().describe("Free bytes of its disk, where it can be used"),
    files: count.exactOptional().describe("Its low files, of all fleets"),
    bytes: count.exactOptional(),
  })
  .meta({ id: "StorageTier" });
export type TierAnswer = ValueOf<typeof tier>;

const tierPlan = z
  .object({
    fleet: text,
    tier: text,
    nearVersions: count.describe(
      "Versions whose tensors stay here: the newest of each line and name, tagged, held, assigned and running ones",
    ),
    versions: count.describe("Other versions with tensors of their own"),
    tensors: count.describe("Tensors that only these have, and that no tensor at hand is decoded from"),
    movedTensors: count.describe("Those of them whose low-order bytes are in a tier already"),
    movedBytes: count,
    toMove: count.describe("Those whose low-order bytes would be moved"),
    toMoveBytes: count.describe("About how many bytes that would be"),
    toRecode: count.describe("Those that are re-encoded into byte planes first"),
    packBytes: count.describe("Bytes of all packs now"),
    tierFreeBytes: count,
    tierBytesPerSecond: z.number().describe("How fast the tier's disk reads, measured now"),
    recovery: z
      .object({
        meanBytes: count,
        largestBytes: count,
        meanMs: z.number(),
        largestMs: z.number(),
      })
      .describe(
        "What recovering one of these versions reads from the tier afterwards, and how long that takes",
      ),
  })
  .meta({ id: "TierPlan" }) satisfies z.ZodType<TierPlan>;

const tierApplied = z
  .object({
    fleet: text,
    tier: text,
    movedTensors: count,
    movedBytes: count,
    recoded: count.describe("Tensors that were re-encoded into byte planes"),
    failed: z.array(z.object({ tensor: hash, code: errorCode, message: text })),
    stopped: z
      .enum(["time", "disk", "interrupted"])
      .nullable()
      .describe("Why it ended before everything was moved; null: everything was"),
    packBytesBefore: count,
    packBytesAfter: count,
  })
  .meta({ id: "TierApplied" }) satisfies z.ZodType<TierApplied>;

export const tierOperations = {
  tiers: call({
    summary: "The storage tiers of the server's home, and whether they can be reached",
    method: "GET",
    path: "/v1/storage/tiers",
    right: "read",
    scoped: "refused",
    output: z.array(tier),
    isLong: true,
  }),
  addTier: call({
    summary: "Make a folder on the server's machine a storage tier",
    method: "POST",
    path: "/v1/storage/tiers",
    right: "administer",
    scoped: "refused",
    // A tier is written to the server's disk.
    body: {
      name: tierName,
      folder: z.string().min(1).max(4096).describe("Absolute path of an empty folder"),
    },
    output: tier,
  }),
  removeTier: call({
    summary: "Bring everything back from a tier, then forget it",
    method: "POST",
    path: "/v1/storage/tiers/:tier/remove",
    right: "administer",
    scoped: "refused",
    params: { tier: tierName },
    output: z.object({ tensors: count, bytes: count }).describe("What was brought back, of all fleets"),
    isLong: true,
    stopsWithClient: true,
  }),
  planTier: call({
    summary:
      "What moving the low-order bytes of old versions to a tier would bring, and cost; changes nothing",
    method: "GET",
    path: `${storagePath}/tiers/:tier`,
    right: "read",
    params: { ...fleetParams, tier: tierName },
    output: tierPlan,
    isLong: true,
  }),
  applyTier: call({
    summary: "Move the low-order bytes of old versions to a tier; one that was stopped can be continued",
    method: "POST",
    path: `${storagePath}/tiers/:tier/apply`,
    right: "change-storage",
    params: { ...fleetParams, tier: tierName },
    output: tierApplied,
    isLong: true,
    stopsWithClient: true,
  }),
};
