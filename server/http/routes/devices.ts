/** Routes of devices: list, show, enroll, revoke, assign, command. */
import type { FastifyInstance } from "fastify";
import { z } from "zod";
import type { ServerOperations } from "../../operations/operations.js";
import { deviceParams, fleetParams, parse, reasonText, shortText, typedValues } from "./input.js";

const enrolment = z.object({
  device: shortText,
  lines: z.array(shortText).min(1).max(64),
  profile: shortText.default("generic"),
  initial: z.record(shortText, z.string().max(512)).optional(),
  allowReduced: z.boolean().optional(),
  dryRun: z.boolean().optional(),
});

export function addDeviceRoutes(app: FastifyInstance, operations: ServerOperations): void {
  app.get("/v1/fleets/:fleet/devices", ({ params }) => operations.devices(parse(fleetParams, params).fleet));
  app.get("/v1/fleets/:fleet/devices/:device", ({ params }) => {
    const { fleet, device } = parse(deviceParams, params);
    return operations.device(fleet, device);
  });
  app.post("/v1/fleets/:fleet/devices", ({ params, body }) =>
    operations.enroll({ fleet: parse(fleetParams, params).fleet, ...parse(enrolment, body) }),
  );
  app.post("/v1/fleets/:fleet/devices/:device/revoke", async ({ params, body }, reply) => {
    const { fleet, device } = parse(deviceParams, params);
    await operations.revoke(fleet, device, parse(z.object({ because: reasonText }), body).because);
    return reply.status(204).send();
  });
  app.post("/v1/fleets/:fleet/devices/:device/assign", ({ params, body }) => {
    const { fleet, device } = parse(deviceParams, params);
    const { line, model, allowReduced } = parse(
      z.object({ line: shortText, model: z.string().min(1).max(512), allowReduced: z.boolean().optional() }),
      body,
    );
    return operations.assign(fleet, device, line, model, { allowReduced });
  });
  app.post("/v1/fleets/:fleet/devices/:device/train", ({ params, body }) => {
    const { fleet, device } = parse(deviceParams, params);
    const { line, parameters } = parse(
      z.object({ line: shortText, parameters: typedValues.optional() }),
      body,
    );
    return operations.trainOnDevice(fleet, device, line, parameters);
  });
  app.post("/v1/fleets/:fleet/devices/:device/commands", ({ params, body }) => {
    const { fleet, device } = parse(deviceParams, params);
    const command = parse(
      z.object({
        name: shortText,
        body: z.unknown(),
        timeoutMs: z.number().int().min(1).max(600_000).optional(),
      }),
      body,
    );
    return operations.command(fleet, device, command.name, command.body, command.timeoutMs);
  });
}
