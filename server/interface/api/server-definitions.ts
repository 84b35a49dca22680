/** Operations on the server itself: health, fleets, events. */
import * as z from "zod";
import { fleetSummary, health } from "./devices/device-schemas.js";
import { serverEvent } from "./event-schemas.js";
import { shortText, timeMs } from "./fields.js";
import { call, roles, stream } from "./operation.js";

const tokenRole = z
  .enum(roles)
  .describe("viewer reads; operator also changes models, devices, data and storage; admin may do everything");
const namedToken = z
  .object({ name: z.string(), role: tokenRole, madeAtMs: timeMs })
  .meta({ id: "NamedToken" });

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
  tokens: call({
    summary: "Tokens of the HTTP port besides the home's own, without the tokens themselves",
    method: "GET",
    path: "/v1/tokens",
    role: "admin",
    output: z.array(namedToken),
  }),
  addToken: call({
    summary: "Make a token; only this answer has it",
    method: "POST",
    path: "/v1/tokens",
    role: "admin",
    body: { name: shortText.describe("Facts name it"), role: tokenRole },
    output: z.object({ name: z.string(), role: tokenRole, token: z.string() }),
  }),
  removeToken: call({
    summary: "Refuse a token from now on",
    method: "POST",
    path: "/v1/tokens/:name/remove",
    role: "admin",
    params: { name: shortText },
    output: z.array(namedToken).describe("Those that are left"),
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
