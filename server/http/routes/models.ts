/**
 * Routes of models: list, show, log, diff, recover as streamed safetensors, fleet as of a moment, import,
 * tag, hold, retire, verify.
 */
import { Readable } from "node:stream";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { z } from "zod";
import { StemmaError } from "../../../shared/errors.js";
import type { ImportOptions, RecoveryStream, ServerOperations } from "../../operations/operations.js";
import { decodeImport, importContentType } from "../import-frame.js";
import { fleetParams, modelParams, parse, reasonText, shortText } from "./input.js";

const filter = z.object({
  name: shortText.optional(),
  device: shortText.optional(),
  line: shortText.optional(),
  all: z
    .enum(["true", "false"])
    .transform((value) => value === "true")
    .optional(),
});
const environmentPolicy = z.enum(["ignore", "report", "refuse-different", "refuse-any"]);

export function addModelRoutes(app: FastifyInstance, operations: ServerOperations): void {
  app.get("/v1/fleets/:fleet/models", ({ params, query }) =>
    operations.models(parse(fleetParams, params).fleet, parse(filter, query)),
  );
  app.get("/v1/fleets/:fleet/models/:model", ({ params }) => operations.model(parse(modelParams, params)));
  app.get("/v1/fleets/:fleet/models/:model/log", ({ params }) => operations.log(parse(modelParams, params)));
  app.get("/v1/fleets/:fleet/diff", ({ params, query }) => {
    const { fleet } = parse(fleetParams, params);
    const { a, b, otherFleet } = parse(
      z.object({
        a: z.string().min(1).max(512),
        b: z.string().min(1).max(512),
        otherFleet: shortText.optional(),
      }),
      query,
    );
    return operations.diff({ fleet, model: a }, { fleet: otherFleet ?? fleet, model: b });
  });
  app.get("/v1/fleets/:fleet/models/:model/tensors", { exposeHeadRoute: false }, (request, reply) =>
    sendRecovery(operations, request, reply),
  );
  app.get("/v1/fleets/:fleet/as-of", ({ params, query }) =>
    operations.asOf(parse(fleetParams, params).fleet, parse(z.object({ at: z.coerce.number() }), query).at),
  );
  app.post("/v1/fleets/:fleet/import", (request) => importModel(operations, request));
  app.post("/v1/fleets/:fleet/models/:model/tag", ({ params, body }) => {
    const { tag, remove } = parse(z.object({ tag: shortText, remove: z.boolean().optional() }), body);
    return operations.tag(parse(modelParams, params), tag, remove);
  });
  app.post("/v1/fleets/:fleet/models/:model/hold", ({ params, body }) => {
    const { held, because, by } = parse(
      z.object({ held: z.boolean(), because: reasonText, by: shortText.optional() }),
      body,
    );
    return operations.hold(parse(modelParams, params), held, because, by);
  });
  app.post("/v1/fleets/:fleet/models/:model/retire", ({ params, body }) => {
    const { because, dryRun } = parse(
      z.object({ because: reasonText, dryRun: z.boolean().optional() }),
      body,
    );
    return operations.retire(parse(modelParams, params), because, { dryRun });
  });
  app.post("/v1/fleets/:fleet/models/:model/verify", ({ params }) =>
    operations.verify(parse(modelParams, params)),
  );
}

async function sendRecovery(
  operations: ServerOperations,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const reference = parse(modelParams, request.params);
  const { environment } = parse(z.object({ environment: environmentPolicy.optional() }), request.query);
  const stream = await operations.recover(reference, { environment });
  const report = stream.expected;
  return reply
    .headers({
      "content-type": "application/octet-stream",
      "content-length": String(stream.byteLength),
      etag: `"${report.root}"`,
      "content-disposition": `attachment; filename="${report.name.replace(/[^\w.-]/g, "_")}-${report.version}.safetensors"`,
      "stemma-root": report.root,
      "stemma-version-id": report.versionId,
      "stemma-environment": report.environment.verdict,
      // Headers are bounded: of an environment that differs in very many fields the first say enough.
      "stemma-recovery": Buffer.from(
        JSON.stringify({
          ...report,
          environment: { ...report.environment, differing: report.environment.differing.slice(0, 20) },
        }),
      ).toString("base64url"),
    })
    .send(Readable.from(lastPieceAfterVerification(stream), { objectMode: false }));
}

/**
 * Holds each piece until the next is there, and the last until the report says that the root is the recorded
 * one: a body that is whole is right.
 */
async function* lastPieceAfterVerification(stream: RecoveryStream): AsyncGenerator<Uint8Array> {
  let held: Uint8Array | undefined;
  for await (const chunk of stream.chunks) {
    if (held !== undefined) yield held;
    held = chunk;
  }
  await stream.report;
  if (held !== undefined) yield held;
}

const plainImport = z.object({
  name: shortText,
  base: shortText.optional(),
  device: shortText.optional(),
  line: shortText.optional(),
});

/**
 * Both forms of an import: framed with all its options, or a bare safetensors file with options in the query
 * (for curl).
 */
async function importModel(operations: ServerOperations, request: FastifyRequest): Promise<unknown> {
  const { fleet } = parse(fleetParams, request.params);
  const body = request.body;
  if (!(body instanceof Readable))
    throw new StemmaError(
      "HTTP_REQUEST_INVALID",
      "An import's body is a safetensors file, sent as application/octet-stream with ?name=NAME.",
    );
  if (request.headers["content-type"]?.split(";")[0] === importContentType) {
    const { options, file } = await decodeImport(fleet, body);
    return operations.import({ byteLength: -1, chunks: file }, options);
  }
  const options: ImportOptions = { fleet, ...parse(plainImport, request.query) };
  return operations.import(
    { byteLength: Number(request.headers["content-length"] ?? -1), chunks: body },
    options,
  );
}
