/**
 * The operations of a running server, over its local socket or a URL. Calls derive from the table of
 * operations. Errors arrive typed, and answers are checked against the table's schemas.
 */
import { isStemmaError } from "../../shared/errors.js";
import type { CallDefinition } from "../api/operation.js";
import { importContentType } from "../api/model-definitions.js";
import { operationTable } from "../api/operation-table.js";
import type {
  CallOperations,
  CallOptions,
  ImportOptions,
  ImportStream,
  LocalFile,
  ServerOperations,
} from "../api/server-operations.js";
import { checkAnswer } from "./check-answer.js";
import { eventsOver } from "./events-over-http.js";
import { followJob } from "./follow-job.js";
import { encodeImportOptions } from "./import-frame.js";
import { recoverOver } from "./recovery-over-http.js";
import { connect, type Connection, type ServerAddress } from "./request.js";
import { pathOf, splitInput } from "./write-input.js";

/** Time limit for answers of operations that work for minutes. */
const longMs = 30 * 60_000;

/** @param pollMs time between two requests for the progress of a training or of storage work */
export function connectOperations(address: ServerAddress, pollMs = 500): ServerOperations {
  const connection = connect(address);
  const { train, planStorage, applyStorage } = operationTable;
  return {
    ...callsOver(connection),
    recover: (input) => recoverOver(connection, input, longMs),
    import: (stream, options) => importOver(connection, stream, options),
    train: (input, options) => followJob(connection, { definition: train, input, pollMs, ...options }),
    planStorage: async (input, options) =>
      (await followJob(connection, { definition: planStorage, input, pollMs, ...options })).plan,
    applyStorage: async (input, options) =>
      (await followJob(connection, { definition: applyStorage, input, pollMs, ...options })).applied,
    events: (signal) => eventsOver(connection, signal),
    close: () => connection.close(),
  };
}

/** A method for every call of the table. */
function callsOver(connection: Connection): CallOperations {
  const methods = Object.entries(operationTable).flatMap(([name, definition]) =>
    definition.kind === "call"
      ? [
          [
            name,
            (input: object = {}, options: CallOptions = {}) =>
              callOver(connection, definition, input, options),
          ] as const,
        ]
      : [],
  );
  // Object.entries loses the type of the names; there is one method for every call of the table.
  return Object.fromEntries(methods) as unknown as CallOperations;
}

async function callOver(
  connection: Connection,
  definition: CallDefinition,
  input: object,
  { signal }: CallOptions,
): Promise<unknown> {
  const { path, body } = splitInput(definition, input);
  const answer = await connection.sendForJson({
    method: definition.method,
    path,
    ...(definition.method === "POST" ? { json: body } : {}),
    ...(definition.isLong === true ? { timeoutMs: longMs } : {}),
    signal,
  });
  return checkAnswer(definition.output, answer, connection.server);
}

/**
 * Over the local socket the server first gets the path of a file of this machine. Where it cannot read that very
 * file, and over TCP, the bytes are sent.
 */
async function importOver(
  connection: Connection,
  stream: ImportStream,
  options: ImportOptions,
): ReturnType<ServerOperations["import"]> {
  if (connection.isLocal && stream.localFile !== undefined)
    try {
      return await sendImport(connection, options, { localFile: stream.localFile });
    } catch (error) {
      if (!isStemmaError(error, "FILE_NOT_SHARED")) throw error;
    }
  return await sendImport(connection, options, { chunks: stream.chunks });
}

async function sendImport(
  connection: Connection,
  options: ImportOptions,
  {
    localFile,
    chunks = [],
  }: { readonly localFile?: LocalFile; readonly chunks?: ImportStream["chunks"] | [] },
): ReturnType<ServerOperations["import"]> {
  const definition = operationTable.import;
  const answer = await connection.sendForJson({
    method: definition.method,
    path: pathOf(definition, { fleet: options.fleet }),
    timeoutMs: longMs,
    body: {
      contentType: importContentType,
      chunks: (async function* () {
        yield encodeImportOptions(options, localFile);
        yield* chunks;
      })(),
    },
  });
  return checkAnswer(definition.output, answer, connection.server);
}
