/**
 * Answers a connection whose only purpose is the owner's statement of the time. A device that refuses this server's
 * certificate for its validity alone sends it nothing else. The statement is public and proves itself.
 */
import { timeClientIdOf } from "../../../../shared/wire/topics.js";
import type { AnswerOnly, ConnectAttempt, Refused } from "../../../access/broker/broker-port.js";
import type { FleetRepository } from "../../../storage/repository/fleet-repository.js";
import { answerOnly } from "./answer-only.js";

export interface TimeParts {
  readonly root: string;
  readonly repository: Pick<FleetRepository, "fleet" | "device" | "ownerTime">;
}

export function answerTime(
  { username: device, clientId, will }: Pick<ConnectAttempt, "username" | "clientId" | "will">,
  { root, repository }: TimeParts,
): AnswerOnly | Refused {
  const { fleet } = repository;
  if (repository.device(device) === undefined || clientId !== timeClientIdOf(fleet, device))
    return { refused: "a question for the time of an unknown device", code: "DEVICE_UNKNOWN" };
  if (will !== undefined)
    return { refused: "a question for the time with a will", code: "ENVELOPE_MALFORMED" };
  const { statement } = repository.ownerTime() ?? {};
  if (statement === undefined)
    return {
      code: "CLOCK_NOT_TRUSTED",
      refused:
        "the device refuses this server's certificate for its validity, and the fleet's owner has stated no time (stemma release time)",
    };
  return answerOnly({ root, fleet, device }, { type: "ownerTime", statement });
}
