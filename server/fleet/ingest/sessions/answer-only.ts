/** The one message by which a connection that only asks something is answered. It belongs to no session. */
import { encodeEnvelope } from "../../../../shared/wire/codec.js";
import { protocolVersion } from "../../../../shared/wire/limits.js";
import type { Body } from "../../../../shared/wire/messages.js";
import { buildTopic } from "../../../../shared/wire/topics.js";
import type { AnswerOnly } from "../../../access/broker/broker-port.js";

export function answerOnly(
  place: { readonly root: string; readonly fleet: string; readonly device: string },
  body: Body,
): AnswerOnly {
  const message = {
    protocol: protocolVersion,
    session: 0,
    sequence: 0,
    correlation: "",
    expiresMs: 0,
    body,
  };
  return { answer: { topic: buildTopic({ ...place, kind: "down" }), payload: encodeEnvelope(message) } };
}
