/**
 * The operations of a running server, over its local socket or a URL. Calls derive from the table of
 * operations. Errors arrive typed, and answers are checked against the table's schemas.
 */
import { callNames, definitionOfCall } from "../api/operation-groups.js";
import type { CallName, CallOperations, CallOptions, ServerOperations } from "../api/server-operations.js";
import { checkAnswer } from "./check-answer.js";
import { connect, longMs, type Connection, type ServerAddress } from "./request.js";
import { splitInput } from "./write-input.js";

/** @param pollMs time between two requests for the progress of a training or of storage work */
export function connectOperations(address: ServerAddress, pollMs = 500): ServerOperations {
  const connection = connect(address);
  const jobs = async (): Promise<typeof import("./jobs-over-http.js")> => import("./jobs-over-http.js");
  const bundles = async (): Promise<typeof import("./bundles-over-http.js")> =>
    import("./bundles-over-http.js");
  return {
    ...callsOver(connection),
    recover: async (input) =>
      (await import("./recovery-over-http.js")).recoverOver(connection, input, longMs),
    fetchDataset: async (input) =>
      (await import("./data-over-http.js")).fetchDatasetOver(connection, input, longMs),
    import: async (stream, options) =>
      (await import("./import-over-http.js")).importOver(connection, stream, options),
    bundleObjects: async (input) => (await bundles()).bundleObjectsOver(connection, input),
    depositObjects: async (input, entries) =>
      (await bundles()).depositObjectsOver(connection, input, entries),
    train: async (input, options) => (await jobs()).trainOver(connection, { input, pollMs, ...options }),
    evaluateQuery: async (input, { program, ...options } = {}) =>
      (await jobs()).evaluateQueryOver(connection, { input, pollMs, ...options }, program !== undefined),
    planStorage: async (input, options) =>
      (await jobs()).planStorageOver(connection, { input, pollMs, ...options }),
    applyStorage: async (input, options) =>
      (await jobs()).applyStorageOver(connection, { input, pollMs, ...options }),
    events: async function* (signal) {
      yield* (await import("./events-over-http.js")).eventsOver(connection, signal);
    },
    close: () => connection.close(),
  };
}

/** A method for every call of the table. */
function callsOver(connection: Connection): CallOperations {
  const methods = callNames.map(
    (name) =>
      [
        name,
        (input: object = {}, options: CallOptions = {}) => callOver(connection, { name, input, ...options }),
      ] as const,
  );
  // Object.fromEntries loses the type of the names; there is one method for every call of the table.
  return Object.fromEntries(methods) as unknown as CallOperations;
}

interface Call extends CallOptions {
  readonly name: CallName;
  readonly input: object;
}

async function callOver(connection: Connection, { name, input, signal }: Call): Promise<unknown> {
  const definition = await definitionOfCall(name);
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
