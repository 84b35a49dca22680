/** The first message of a session: which device and software this is, and the state of its models. */
import type { Birth, LineHead } from "../../shared/wire/messages.js";
import { activeVersion, unreleased } from "../outbox/outbox-state.js";
import type { ConversationOptions } from "./conversation-parts.js";
import type { BirthHistory } from "./server-trust.js";

/** @param history what the device has seen of the server's journal */
export function birthOf(
  {
    enrolment,
    outbox,
    clock,
    clockError,
    birth,
  }: Pick<ConversationOptions, "enrolment" | "outbox" | "clock" | "clockError" | "birth">,
  history: BirthHistory,
): Birth {
  const { state } = outbox;
  const heads = enrolment.lines.map((line): LineHead => ({
    line,
    sequence: state.lines.get(line)?.sequence ?? 0,
    versionId: outbox.newest(line)?.versionId,
    activeVersionId: activeVersion(state, line),
  }));
  return {
    type: "birth",
    ...birth(),
    heads,
    ...history,
    unreleased: unreleased(state).length,
    clockMs: Math.round(clock.now()),
    clockErrorMs: clockError.errorMs(clock.monotonic()),
    generation: enrolment.generation,
  };
}
