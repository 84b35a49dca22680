/** The streams of bundles over HTTP: objects from a source, objects to a deposit. */
import { bundleContentType, bundleOperations } from "../api/models/bundle-definitions.js";
import type { OperationInput, ServerOperations } from "../api/server-operations.js";
import { checkAnswer } from "./check-answer.js";
import { longMs, type Connection } from "./request.js";
import { pathOf, splitInput } from "./write-input.js";

export async function bundleObjectsOver(
  connection: Connection,
  input: OperationInput<"bundleObjects">,
): ReturnType<ServerOperations["bundleObjects"]> {
  const { method } = bundleOperations.bundleObjects;
  const { path, body: json } = splitInput(bundleOperations.bundleObjects, input);
  // The end of the entries tells a whole answer from one that broke off.
  return (await connection.send({ method, path, json, timeoutMs: longMs })).body;
}

export async function depositObjectsOver(
  connection: Connection,
  input: OperationInput<"depositObjects">,
  chunks: AsyncIterable<Uint8Array>,
): ReturnType<ServerOperations["depositObjects"]> {
  const definition = bundleOperations.depositObjects;
  const answer = await connection.sendForJson({
    method: definition.method,
    path: pathOf(definition, input),
    timeoutMs: longMs,
    body: { contentType: bundleContentType, chunks },
  });
  return checkAnswer(definition.output, answer, connection.server);
}
