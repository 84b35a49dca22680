/** Operations on webhooks: addresses that a server sends the facts of a fleet to. */
import * as z from "zod";
import { count, fleetText, shortText, timeMs } from "./fields.js";
import { call } from "./operation.js";

const webhookUrl = z.url({ protocol: /^https?$/ }).max(2048);
const types = z
  .array(z.string().min(1).max(64))
  .min(1)
  .max(64)
  .describe("Types of facts that are sent (docs/formats.md, Facts); absent: all");

const webhook = z
  .object({
    name: z.string(),
    fleet: z.string(),
    url: z.string(),
    types: types.exactOptional(),
    madeAtMs: timeMs,
    position: count.describe("Of the next fact to send"),
    behind: count.describe("Facts of the journal that it has not been sent or passed over yet"),
    deliveredAtMs: timeMs.exactOptional().describe("Of the last success since the server started"),
    failures: count.exactOptional().describe("In a row"),
    because: z.string().exactOptional().describe("Why the last request failed"),
    againAtMs: timeMs.exactOptional().describe("When it is tried again"),
  })
  .meta({ id: "Webhook" });

const named = { name: shortText };

export const webhookOperations = {
  webhooks: call({
    summary: "The webhooks of the server's home, and how their deliveries go",
    method: "GET",
    path: "/v1/webhooks",
    right: "administer",
    scoped: "refused",
    output: z.array(webhook),
  }),
  addWebhook: call({
    summary: "Send the facts of a fleet to an address, signed, in order and at least once",
    method: "POST",
    path: "/v1/webhooks",
    right: "administer",
    scoped: "refused",
    body: {
      name: shortText,
      fleet: fleetText,
      url: webhookUrl,
      types: types.optional(),
      from: count.optional().describe("Position of the first fact; absent: only facts from now on"),
    },
    output: webhook,
  }),
  moveWebhook: call({
    summary: "Send facts again, or pass some over: set the position that a webhook goes on from",
    method: "POST",
    path: "/v1/webhooks/:name/move",
    right: "administer",
    scoped: "refused",
    params: named,
    body: { from: count.describe("Position of the next fact to send") },
    output: webhook,
  }),
  testWebhook: call({
    summary: "Send a webhook a signed request without facts, and tell what its receiver answered",
    method: "POST",
    path: "/v1/webhooks/:name/test",
    right: "administer",
    scoped: "refused",
    params: named,
    output: z.object({ isDelivered: z.boolean(), because: z.string().exactOptional() }),
  }),
  removeWebhook: call({
    summary: "Send nothing to a webhook any more",
    method: "POST",
    path: "/v1/webhooks/:name/remove",
    right: "administer",
    scoped: "refused",
    params: named,
    output: z.array(webhook).describe("Those that are left"),
  }),
};
