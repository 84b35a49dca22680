/** Checks a device's answer to the command `evaluate`, as everything that a device says. */
import { StemmaError } from "../../../shared/errors.js";
import { deviceEvaluation } from "../../interface/api/devices/device-schemas.js";
import type { CallOutput } from "../../interface/api/server-operations.js";
import type { FleetRepository } from "../../storage/repository/fleet-repository.js";

/** @throws ENVELOPE_MALFORMED */
export function evaluationOf(
  repository: Pick<FleetRepository, "get">,
  device: string,
  answer: unknown,
): CallOutput<"evaluateOnDevice"> {
  const read = deviceEvaluation.safeParse(answer);
  if (!read.success) {
    const [issue] = read.error.issues;
    throw new StemmaError(
      "ENVELOPE_MALFORMED",
      `The device ${device} answered with something that is not an evaluation (${issue?.path.join(".") ?? ""}: ` +
        `${issue?.message ?? ""}). Update its agent.`,
      { device },
    );
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
