/**
 * Routes of storage and data sets: stats, check, collection (plan, execute), reindex, backup; data list, add,
 * check.
 */
import type { FastifyInstance } from "fastify";
import { z } from "zod";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { ServerOperations } from "../../operations/operations.js";
import { fleetParams, parse, shortText } from "./input.js";

const hash = z
  .string()
  .regex(/^[0-9a-f]{64}$/, "is no SHA-256")
  .transform((value) => value as Hash);
const count = z.number().int().nonnegative();
const collectionPlan = z.object({
  format: z.literal(1),
  generation: count,
  live: count,
  dead: z.array(z.object({ id: hash, storedBytes: count })),
  deletePacks: z.array(shortText),
  repackPacks: z.array(shortText),
  bytesBefore: count,
  bytesAfter: count,
});

export function addStorageRoutes(app: FastifyInstance, operations: ServerOperations): void {
  const prefix = "/v1/fleets/:fleet/storage";
  app.get(`${prefix}/stats`, ({ params }) => operations.stats(parse(fleetParams, params).fleet));
  app.post(`${prefix}/check`, ({ params, body }) =>
    operations.check(
      parse(fleetParams, params).fleet,
      parse(z.object({ sample: z.number().positive().optional() }), body),
    ),
  );
  app.get(`${prefix}/collection`, ({ params }) =>
    operations.planCollection(parse(fleetParams, params).fleet),
  );
  // A plan names every dead object: its body may be long.
  app.post(`${prefix}/collection`, { bodyLimit: 256 * 1024 * 1024 }, ({ params, body }) =>
    operations.collect(parse(fleetParams, params).fleet, parse(collectionPlan, body)),
  );
  app.post(`${prefix}/reindex`, ({ params }) => operations.reindex(parse(fleetParams, params).fleet));
  app.post(`${prefix}/backup`, ({ params, body }) =>
    operations.backup(
      parse(fleetParams, params).fleet,
      parse(z.object({ folder: z.string().min(1).max(4096) }), body).folder,
    ),
  );

  app.get("/v1/fleets/:fleet/datasets", ({ params }) =>
    operations.datasets(parse(fleetParams, params).fleet),
  );
  app.post("/v1/fleets/:fleet/datasets", ({ params, body }) =>
    operations.addDataset(
      parse(fleetParams, params).fleet,
      parse(z.object({ name: shortText, kind: shortText, location: z.string().max(4096) }), body),
    ),
  );
  app.post("/v1/fleets/:fleet/datasets/:name/check", ({ params }) => {
    const { fleet, name } = parse(z.object({ fleet: shortText, name: shortText }), params);
    return operations.checkDataset(fleet, name);
  });
}
