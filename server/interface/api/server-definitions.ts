/** Operations on the server itself: health, fleets, events. */
import * as z from "zod";
import { fleetSummary, health } from "./devices/device-schemas.js";
import { serverEvent } from "./event-schemas.js";
import { shortText, timeMs } from "./fields.js";
import { call, stream } from "./operation.js";
import { roles } from "./rights.js";

const tokenRole = z
  .enum(roles)
  .describe(
    "viewer reads, but no samples; publisher also publishes models to a hub; releaser reads, publishes what the owner signed and rolls it out; operator reads all " +
      "and changes models, devices, data and storage; admin may do everything",
  );
const bounds = {
  fleets: z.array(z.string()).exactOptional().describe("The fleets that it is limited to; absent: all"),
  expiresAtMs: timeMs.exactOptional().describe("It is refused from then on; absent: never"),
};
const namedToken = z
  .object({ name: z.string(), role: tokenRole, madeAtMs: timeMs, ...bounds })
  .meta({ id: "NamedToken" });
const maxValidMs = 3660 * 86_400_000;

export const serverOperations = {
  health: call({
    summary: "Whether the server runs, and where; without a token it answers its version only",
    method: "GET",
    path: "/v1/health",
    right: null,
    scoped: "own",
    output: health,
  }),
  fleets: call({
    summary: "The fleets of the server's home",
    method: "GET",
    path: "/v1/fleets",
    right: "read",
    scoped: "own",
    output: z.array(fleetSummary),
  }),
  tokens: call({
    summary: "Tokens of the HTTP port besides the home's own, without the tokens themselves",
    method: "GET",
    path: "/v1/tokens",
    right: "administer",
    scoped: "refused",
    output: z.array(namedToken),
  }),
  addToken: call({
    summary: "Make a token; only this answer has it",
    method: "POST",
    path: "/v1/tokens",
    right: "administer",
    scoped: "refused",
    body: {
      name: shortText.describe("Facts name it"),
      role: tokenRole,
      fleets: z
        .array(shortText)
        .min(1)
        .max(1000)
        .optional()
        .describe("Fleets of the home that it is limited to; absent: all, also later ones"),
      validMs: z
        .number()
        .int()
        .min(60_000)
        .max(maxValidMs)
        .optional()
        .describe("How long it can be used; absent: until it is removed"),
    },
    output: z.object({ name: z.string(), role: tokenRole, ...bounds, token: z.string() }),
  }),
  removeToken: call({
    summary: "Refuse a token from now on",
    method: "POST",
    path: "/v1/tokens/:name/remove",
    right: "administer",
    scoped: "refused",
    params: { name: shortText },
    output: z.array(namedToken).describe("Those that are left"),
  }),
  events: stream({
    summary: "What happens on the server, as server-sent events",
    method: "GET",
    path: "/v1/events",
    right: "read",
    scoped: "own",
    query: { fleet: shortText.optional().describe("Only events of this fleet") },
    responseType: "text/event-stream",
    output: serverEvent,
    details:
      "Each event has its name as `event` and a JSON object as `data`. The stream ends when the client leaves or the server stops. A client that reads too slowly loses the oldest events and gets `missed` with their number.",
  }),
};
