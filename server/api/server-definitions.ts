/** Operations on the server itself: health, fleets, events. */
import * as z from "zod";
import { fleetSummary, health } from "./device-schemas.js";
import { serverEvent } from "./event-schemas.js";
import { fleetParams, fleetPath, shortText } from "./fields.js";
import { journalPage, maxListedFacts } from "./journal-schemas.js";
import { call, stream } from "./operation.js";

export const serverOperations = {
  health: call({
    summary: "Whether the server runs, and where; without a token it answers its version only",
    method: "GET",
    path: "/v1/health",
    output: health,
  }),
  fleets: call({
    summary: "The fleets of the server's home",
    method: "GET",
    path: "/v1/fleets",
    output: z.array(fleetSummary),
  }),
  journal: call({
    summary: "Facts of a fleet in the order in which they became true, with who caused them",
    method: "GET",
    path: `${fleetPath}/journal`,
    params: fleetParams,
    query: {
      from: z
        .number()
        .int()
        .min(0)
        .max(Number.MAX_SAFE_INTEGER)
        .optional()
        .describe("Position of the first fact; without it the last ones are answered"),
      limit: z.number().int().min(1).max(maxListedFacts).optional().describe("How many at most; default 100"),
    },
    output: journalPage,
  }),
  events: stream({
    summary: "What happens on the server, as server-sent events",
    method: "GET",
    path: "/v1/events",
    query: { fleet: shortText.optional().describe("Only events of this fleet") },
    responseType: "text/event-stream",
    output: serverEvent,
    details:
      "Each event has its name as `event` and a JSON object as `data`. The stream ends when the client leaves or the server stops. A client that reads too slowly loses the oldest events and gets `missed` with their number.",
  }),
};
