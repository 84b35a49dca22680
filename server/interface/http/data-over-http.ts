/** A data set over HTTP: the report in a header, then the bytes. */
import { datasetOperations } from "../api/models/dataset-definitions.js";
import type { DataStream, OperationInput } from "../api/server-operations.js";
import { requestProvenBody } from "./proven-body.js";
import type { Connection } from "./request.js";
import { pathOf } from "./write-input.js";

export function fetchDatasetOver(
  connection: Connection,
  input: OperationInput<"fetchDataset">,
  timeoutMs: number,
): Promise<DataStream> {
  return requestProvenBody(connection, {
    path: pathOf(datasetOperations.fetchDataset, input),
    timeoutMs,
    header: "stemma-data",
    schema: datasetOperations.fetchDataset.output,
    describe: ({ name }) => ({
      what: `The data set ${name}`,
      hint: "`stemma storage check` shows whether a stored chunk is damaged.",
    }),
  });
}
