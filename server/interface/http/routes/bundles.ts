/** Routes whose bodies are entries of bundles. */
import { Readable } from "node:stream";
import type { FastifyInstance } from "fastify";
import { StemmaError } from "../../../../shared/errors.js";
import { defined } from "../../../../shared/defined.js";
import { bundleOperations } from "../../api/models/bundle-definitions.js";
import { readInput } from "../read-input.js";
import type { OperationsFor } from "./calls.js";

export function addBundleRoutes(app: FastifyInstance, operationsFor: OperationsFor): void {
  const { bundleObjects, depositObjects } = bundleOperations;
  app.post(
    bundleObjects.path,
    { ...defined({ bodyLimit: bundleObjects.maxBodyBytes }) },
    async (request, reply) => {
      const entries = await operationsFor(request).bundleObjects(readInput(bundleObjects, request));
      return reply
        .headers({ "content-type": bundleObjects.responseType })
        .send(Readable.from(entries, { objectMode: false }));
    },
  );
  app.post(depositObjects.path, async (request) => {
    const { body, params } = request;
    if (!(body instanceof Readable))
      throw new StemmaError(
        "HTTP_REQUEST_INVALID",
        "The body must be the entries of a bundle, sent as application/vnd.stemma.bundle.",
      );
    // The body is a stream, which the schema cannot check.
    const input = readInput(depositObjects, { params, query: {}, body: {} });
    return await operationsFor(request).depositObjects(input, body);
  });
}
