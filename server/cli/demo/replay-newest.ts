/** Makes a model that a vehicle trained once more on the server, from its provenance, and compares every bit. */
import { StemmaError } from "../../../shared/errors.js";
import { formatBytes, formatDuration } from "../../../shared/cli/output.js";
import type { CallOutput, ServerOperations } from "../../interface/api/server-operations.js";
import { demoFleet } from "./demo-plan.js";

type ProvedModel = CallOutput<"models">[number];

function describeProved(proved: readonly Pick<ProvedModel, "record" | "tensorBytes">[]): string {
  const devices = [...new Set(proved.map(({ record }) => record.device))].join(", ");
  const bytes = proved.reduce((sum, { tensorBytes }) => sum + tensorBytes, 0);
  return (
    `${proved.length} models of ${devices} were proved: trained once more on the server, bit-exact;\n` +
    `their ${formatBytes(bytes)} of parameters never left the vehicle.`
  );
}

/**
 * Tells what was proved of the vehicles that reported provenance. Where none did, it replays the newest of the
 * vehicles' smallest models, which trains for about a second.
 * @returns the verdict in a sentence; undefined where no vehicle has trained
 * @throws CHECK_FAILED where the replay gives another model; TRAINING_STOPPED when aborted
 */
export async function replayNewest(
  operations: ServerOperations,
  signal: AbortSignal,
): Promise<string | undefined> {
  const trained = (await operations.models({ fleet: demoFleet })).filter(
    ({ record }) => record.device !== "",
  );
  const proved = trained.filter(({ claim }) => claim?.isProved === true);
  if (proved.length > 0) return describeProved(proved);
  const smallest = Math.min(...trained.map(({ tensorBytes }) => tensorBytes));
  const model = trained.findLast(({ tensorBytes }) => tensorBytes === smallest);
  if (model === undefined) return undefined;
  const { verdict, grade, text, workMs } = await operations.replay(
    { fleet: demoFleet, model: model.versionId },
    { signal },
  );
  const name = `${model.name}:${model.version}`;
  if (verdict === "refuted")
    throw new StemmaError("CHECK_FAILED", `The replay of ${name} gives another model: ${text}`);
  return verdict === "proved"
    ? `${name} was trained once more on the server in ${formatDuration(workMs ?? 0)}: ${grade ?? ""}.`
    : `${name} was not trained once more: ${text}`;
}
