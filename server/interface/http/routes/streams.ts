/** Routes whose bodies are streams: recovery, import, events. */
import { Readable } from "node:stream";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { StemmaError } from "../../../../shared/errors.js";
import { importContentType } from "../../api/models/model-definitions.js";
import { operationTable } from "../../api/operation-table.js";
import type { RecoveryReport } from "../../api/models/version-schemas.js";
import type { ImportReport } from "../../api/models/import-schemas.js";
import type { ProvenStream, ServerOperations } from "../../api/server-operations.js";
import { decodeImport } from "../import-frame.js";
import { readInput } from "../read-input.js";
import { untilClientLeaves, type OperationsFor } from "./calls.js";

/** The parts of the server that these routes need. */
export interface StreamRouteOptions {
  /** Ends event streams when the server stops. */
  readonly stopping: AbortSignal;
  /** True if clients are trusted to name files of this machine: those of the local socket. */
  readonly mayNameFiles: boolean;
  /** True if the token of a stream that has begun is still valid. @throws TOKEN_EXPIRED */
  readonly mayGoOn: (request: FastifyRequest) => Promise<boolean>;
}

export function addStreamRoutes(
  app: FastifyInstance,
  operationsFor: OperationsFor,
  { stopping, mayNameFiles, mayGoOn }: StreamRouteOptions,
): void {
  const { recover, fetchDataset, import: importing, events } = operationTable;
  app.get(recover.path, { exposeHeadRoute: false }, (request, reply) =>
    sendRecovery(operationsFor(request), request, reply),
  );
  app.get(fetchDataset.path, { exposeHeadRoute: false }, (request, reply) =>
    sendDataset(operationsFor(request), request, reply),
  );
  app.post(importing.path, (request) => importModel(operationsFor(request), request, mayNameFiles));
  app.get(events.path, { exposeHeadRoute: false }, (request, reply) => {
    const { fleet } = readInput(events, request);
    const clientLeft = new AbortController();
    request.raw.once("close", () => clientLeft.abort());
    const liveEvents = operationsFor(request).events(AbortSignal.any([clientLeft.signal, stopping]));
    return reply.headers({ "content-type": events.responseType, "cache-control": "no-store" }).send(
      Readable.from(
        eventLines(liveEvents, fleet, () => mayGoOn(request)),
        { objectMode: false },
      ),
    );
  });
}

async function sendRecovery(
  operations: ServerOperations,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const stream = await untilClientLeaves(request, reply, (signal) =>
    operations.recover(readInput(operationTable.recover, request), { signal }),
  );
  const report = stream.expected;
  return reply
    .headers({
      "content-type": operationTable.recover.responseType,
      "content-length": String(stream.byteLength),
      // The root is that of the complete model, whichever layers are sent.
      ...(report.partOf === undefined ? { etag: etagOf(report) } : {}),
      "content-disposition": `attachment; filename="${report.name.replace(/[^\w.-]/g, "_")}-${report.version}.safetensors"`,
      "stemma-root": report.root,
      "stemma-version-id": report.versionId,
      "stemma-environment": report.environment.verdict,
      "stemma-recovery": Buffer.from(
        JSON.stringify({ ...report, environment: fittingHeader(report.environment) }),
      ).toString("base64url"),
    })
    .send(Readable.from(lastChunkAfterVerification(stream), { objectMode: false }));
}

const maxDiffering = 20;
const maxDifferingBytes = 4096;
const maxField = 100;

/** The first differing fields, cut: the size of headers is limited, and a device states its environment as it likes. */
function fittingHeader(environment: RecoveryReport["environment"]): RecoveryReport["environment"] {
  const cut = (text: string): string => {
    const shown = text.slice(0, maxField).replace(/[\uD800-\uDBFF]$/, "");
    return text.length <= maxField ? text : `${shown}…`;
  };
  const differing: RecoveryReport["environment"]["differing"][number][] = [];
  let bytes = 0;
  for (const { field, recorded, here } of environment.differing.slice(0, maxDiffering)) {
    const row = {
      field: cut(field),
      recorded: recorded === undefined ? undefined : cut(recorded),
      here: here === undefined ? undefined : cut(here),
    };
    bytes += Buffer.byteLength(JSON.stringify(row));
    if (bytes > maxDifferingBytes) break;
    differing.push(row);
  }
  return { ...environment, differing };
}

/** The entity tag of a recovery: a later redaction changes the story, but not the root. */
function etagOf({ root, story }: RecoveryReport): string {
  return story === undefined ? `"${root}"` : `"${root}.${story.slice(0, 16)}"`;
}

async function sendDataset(
  operations: ServerOperations,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { fetchDataset } = operationTable;
  const stream = await operations.fetchDataset(readInput(fetchDataset, request));
  const report = stream.expected;
  return reply
    .headers({
      "content-type": fetchDataset.responseType,
      "content-length": String(stream.byteLength),
      etag: `"${report.hash}"`,
      "content-disposition": `attachment; filename="${report.name.replace(/[^\w.-]/g, "_")}.samples.bin"`,
      "stemma-data": Buffer.from(JSON.stringify(report)).toString("base64url"),
    })
    .send(Readable.from(lastChunkAfterVerification(stream), { objectMode: false }));
}

/**
 * Holds each chunk back until the next has come, and the last until everything is verified. So a body
 * that arrives completely is correct.
 */
async function* lastChunkAfterVerification(stream: ProvenStream<unknown>): AsyncGenerator<Uint8Array> {
  let held: Uint8Array | undefined;
  for await (const chunk of stream.chunks) {
    if (held !== undefined) yield held;
    held = chunk;
  }
  await stream.report;
  if (held !== undefined) yield held;
}

/**
 * Accepts both forms of an import: a frame with all its options, or (for curl) a bare safetensors file with
 * options in the query.
 */
async function importModel(
  operations: ServerOperations,
  request: FastifyRequest,
  mayNameFiles: boolean,
): Promise<ImportReport> {
  const { body, headers } = request;
  if (!(body instanceof Readable))
    throw new StemmaError(
      "HTTP_REQUEST_INVALID",
      "The body of an import must be a safetensors file, sent as application/octet-stream with ?name=NAME.",
    );
  // The body is a stream, which the schema cannot check.
  const { fleet, name, ...options } = readInput(operationTable.import, {
    ...requestParts(request),
    body: {},
  });
  if (headers["content-type"]?.split(";")[0] === importContentType) {
    const framed = await decodeImport(fleet, body);
    const { localFile } = framed;
    if (localFile !== undefined && !mayNameFiles)
      throw new StemmaError(
        "NOT_ALLOWED",
        "Only a client on the server's local socket may name a file for the server to read. Send the file itself.",
      );
    return operations.import({ byteLength: -1, chunks: framed.file, localFile }, framed.options);
  }
  if (name === undefined)
    throw new StemmaError(
      "HTTP_REQUEST_INVALID",
      "An import of a bare file needs the name of its model. Add ?name=NAME to the URL.",
    );
  const byteLength = Number(headers["content-length"] ?? -1);
  return operations.import({ byteLength, chunks: body }, { fleet, name, ...options });
}

function requestParts({ params, query }: FastifyRequest): {
  readonly params: unknown;
  readonly query: unknown;
} {
  return { params, query };
}

/** The time for which a token that was looked at is not looked at again. */
const trustedMs = 1000;

/** @param mayGoOn asked before an event is sent; a stream whose token was removed or expired ends */
async function* eventLines(
  events: ReturnType<ServerOperations["events"]>,
  fleet: string | undefined,
  mayGoOn: () => Promise<boolean>,
): AsyncGenerator<string> {
  // This line makes the answer's head leave now, so that the client knows that the stream has begun.
  yield ": stemma events\n\n";
  let askedMs = performance.now();
  for await (const event of events) {
    if (fleet !== undefined && event.fleet !== fleet && event.event !== "missed") continue;
    if (performance.now() - askedMs >= trustedMs) {
      if (!(await mayGoOn().catch(() => false))) return;
      askedMs = performance.now();
    }
    yield `event: ${event.event}\ndata: ${JSON.stringify(event)}\n\n`;
  }
}
