/** Checks a device's answer to the command `evaluate`, as everything that a device says. */
import { deviceEvaluation } from "../../interface/api/devices/device-schemas.js";
import type { CallOutput } from "../../interface/api/server-operations.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";
import { answerMalformed } from "./device-errors.js";

/** @throws ENVELOPE_MALFORMED */
export function evaluationOf(
  repository: Pick<FleetRepository, "get">,
  device: string,
  answer: unknown,
): CallOutput<"evaluateOnDevice"> {
  const read = deviceEvaluation.safeParse(answer);
  if (!read.success) {
    const [issue] = read.error.issues;
    throw answerMalformed(device, "an evaluation", issue);
  }
  const { versions, ...evaluation } = read.data;
  return {
    ...evaluation,
    versions: versions.map(({ name: _, ...version }) => {
      const known = repository.get(version.versionId);
      return known === undefined ? version : { ...version, name: `${known.name}:${known.version}` };
    }),
  };
}
