/** An import over HTTP: options and file in one body. */
import { isStemmaError } from "../../../shared/errors.js";
import { importContentType, modelOperations } from "../api/models/model-definitions.js";
import type { ImportOptions, ImportStream, LocalFile, ServerOperations } from "../api/server-operations.js";
import { checkAnswer } from "./check-answer.js";
import { encodeImportOptions } from "./import-frame.js";
import { longMs, type Connection } from "./request.js";
import { pathOf } from "./write-input.js";

/**
 * Imports a model; over the local socket the server first gets the path of a file of this machine. Where it
 * cannot read that very file, and over TCP, the bytes are sent.
 */
export async function importOver(
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
  const definition = modelOperations.import;
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
