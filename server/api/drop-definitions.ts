/** Operations on tensors that a replay gives again: drop them, store them again. */
import { dropBody, dropReport } from "./drop-schemas.js";
import { fleetParams, modelParams, modelPath, reasonText, storagePath } from "./fields.js";
import { call } from "./operation.js";
import { versionSummary } from "./version-schemas.js";

export const dropOperations = {
  dropTensors: call({
    summary:
      "Drop the tensors of versions that a replay gives again bit for bit; each is proved first. The next collection " +
      "frees the space",
    method: "POST",
    path: `${storagePath}/drop`,
    params: fleetParams,
    body: dropBody,
    output: dropReport,
    isLong: true,
    stopsWithClient: true,
  }),
  keepTensors: call({
    summary:
      "Store the tensors of a version again that were dropped; they are made by a replay where they are gone",
    method: "POST",
    path: `${modelPath}/keep`,
    params: modelParams,
    body: { because: reasonText.optional() },
    output: versionSummary,
    isLong: true,
    stopsWithClient: true,
  }),
};
