/** Routes of retention: the rules of a fleet, a forecast (also of a rule that is only tried), application. */
import type { FastifyInstance } from "fastify";
import { z } from "zod";
import type { ServerOperations } from "../../operations/operations.js";
import { fleetParams, parse, shortText } from "./input.js";

const scope = z.discriminatedUnion("of", [
  z.strictObject({ of: z.literal("fleet") }),
  z.strictObject({ of: z.literal("line"), line: shortText }),
  z.strictObject({ of: z.literal("name"), name: shortText }),
]);
/** Longer than any rule, so that who sends too much hears what a rule is. */
const rule = z.string().max(4096).nullable();

export function addRetentionRoutes(app: FastifyInstance, operations: ServerOperations): void {
  const prefix = "/v1/fleets/:fleet/storage/retention";
  app.get(prefix, ({ params }) => operations.retention(parse(fleetParams, params).fleet));
  app.post(prefix, ({ params, body }) => {
    const set = parse(z.object({ scope, rule, by: shortText.optional() }), body);
    return operations.setRetention(parse(fleetParams, params).fleet, set.scope, set.rule, set.by);
  });
  app.post(`${prefix}/forecast`, ({ params, body }) =>
    operations.forecastRetention(
      parse(fleetParams, params).fleet,
      parse(
        z.object({ trying: z.object({ scope, rule }).optional(), listKept: z.boolean().optional() }),
        body,
      ),
    ),
  );
  app.post(`${prefix}/apply`, ({ params, body }) =>
    operations.applyRetention(
      parse(fleetParams, params).fleet,
      parse(z.object({ collect: z.boolean().optional() }), body),
    ),
  );
}
