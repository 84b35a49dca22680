/** A recovery over HTTP: the report in a header, then the bytes. */
import { modelOperations } from "../api/models/model-definitions.js";
import type { OperationInput, RecoveryStream } from "../api/server-operations.js";
import { requestProvenBody } from "./proven-body.js";
import type { Connection } from "./request.js";
import { pathOf } from "./write-input.js";

export function recoverOver(
  connection: Connection,
  input: OperationInput<"recover">,
  timeoutMs: number,
): Promise<RecoveryStream> {
  return requestProvenBody(connection, {
    path: pathOf(modelOperations.recover, input),
    timeoutMs,
    header: "stemma-recovery",
    schema: modelOperations.recover.output,
    describe: ({ name, version }) => ({
      what: `The recovery of ${name}:${version}`,
      hint: "`stemma model verify` shows whether the stored model is damaged.",
    }),
  });
}
