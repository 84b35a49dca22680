/** The event stream (server-sent events), for live screens. */
import { Readable } from "node:stream";
import type { FastifyInstance } from "fastify";
import { z } from "zod";
import type { ServerOperations } from "../../operations/operations.js";
import { parse, shortText } from "./input.js";

/** @param stopping ends all streams when the server stops */
export function addEventRoutes(
  app: FastifyInstance,
  operations: ServerOperations,
  stopping: AbortSignal,
): void {
  app.get("/v1/events", { exposeHeadRoute: false }, (request, reply) => {
    const { fleet } = parse(z.object({ fleet: shortText.optional() }), request.query);
    const gone = new AbortController();
    request.raw.once("close", () => gone.abort());
    const events = operations.events(AbortSignal.any([gone.signal, stopping]));
    return reply
      .headers({ "content-type": "text/event-stream", "cache-control": "no-store" })
      .send(Readable.from(lines(events, fleet), { objectMode: false }));
  });
}

async function* lines(
  events: ReturnType<ServerOperations["events"]>,
  fleet: string | undefined,
): AsyncGenerator<string> {
  // The head of the answer goes out with this line, so that who listens knows that it does.
  yield ": stemma events\n\n";
  for await (const event of events) {
    if (fleet !== undefined && event.fleet !== fleet && event.event !== "missed") continue;
    yield `event: ${event.event}\ndata: ${JSON.stringify(event)}\n\n`;
  }
}
