/** A server's events over HTTP, as server-sent events. */
import { createParser } from "eventsource-parser";
import { StemmaError } from "../../../shared/errors.js";
import type { ServerEvent } from "../api/event-schemas.js";
import { serverOperations } from "../api/server-definitions.js";
import { notOfThisVersion } from "./http-errors.js";
import type { Connection } from "./request.js";

/** Longest event, in characters. */
const maxEventLength = 1024 * 1024;
/** A server without events sends nothing for a long time. */
const silenceMs = 24 * 3600_000;

/** Ends when the signal aborts. @throws SERVER_UNREACHABLE where the stream breaks off or is malformed */
export async function* eventsOver(connection: Connection, signal: AbortSignal): AsyncGenerator<ServerEvent> {
  const definition = serverOperations.events;
  const answer = await connection.send({ path: definition.path, signal, timeoutMs: silenceMs });
  const parsed: ServerEvent[] = [];
  let malformed: Error | undefined;
  const parser = createParser({
    maxBufferSize: maxEventLength,
    onEvent: ({ data }) => {
      // A newer server may have events that this version does not know; they pass as they are.
      parsed.push(JSON.parse(data) as ServerEvent);
    },
    onError: (error) => {
      if (error.type === "max-buffer-size-exceeded") malformed = error;
    },
  });
  const decoder = new TextDecoder();
  try {
    for await (const chunk of answer.body as AsyncIterable<Buffer>) {
      parser.feed(decoder.decode(chunk, { stream: true }));
      yield* parsed.splice(0);
      if (malformed !== undefined)
        throw notOfThisVersion(connection.server, "sent an event that is too long", { cause: malformed });
    }
  } catch (cause) {
    if (signal.aborted) return;
    if (cause instanceof StemmaError) throw cause;
    throw new StemmaError(
      "SERVER_UNREACHABLE",
      "The event stream broke off: the server has stopped or cannot be reached any more.",
      { cause },
    );
  } finally {
    answer.body.destroy();
  }
}
