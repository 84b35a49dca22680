/** Defines the operation that every command asks at its end, in a file of its own. So no command loads more for it. */
import * as z from "zod";
import type { KnownDamage } from "../../../storage/repository/answers/store-answers.js";
import { errorCode, fleetParams, hash, storagePath, unreadableVersions } from "../fields.js";
import { call } from "../operation.js";

const knownDamage = z
  .object({
    packs: z
      .array(z.object({ pack: z.string(), id: hash.nullable(), code: errorCode, message: z.string() }))
      .describe("Damaged or missing packs, and damaged objects where an id is given"),
    versions: unreadableVersions,
  })
  .meta({ id: "StoreDamage" }) satisfies z.ZodType<KnownDamage>;

export const damageOperations = {
  knownDamage: call({
    summary: "Damage of the store that is known without reading it; empty for a fleet that is not open",
    method: "GET",
    path: `${storagePath}/damage`,
    right: "read",
    params: fleetParams,
    output: knownDamage,
  }),
};
