/** `stemma webhook add|list|test|move|rm`: addresses that a server sends the facts of a fleet to. */
import { exitStatus } from "../../../../shared/errors.js";
import { formatTime } from "../../../../shared/cli/output.js";
import type { CallOutput } from "../../../interface/api/server-operations.js";
import { listed, plain } from "../../plain-command.js";

export const help = `
A running server sends each fact of the fleet's journal to the address, in order, as signed JSON. It goes on with the
next facts when the receiver has answered with success (2xx), and tries again until then, for days where it must: a
receiver that was away misses nothing, and may get facts twice.

Examples:
  stemma webhook add alerts https://ops.example/stemma --types rollout-phase,judged,quarantined
  stemma webhook test alerts
  stemma webhook move alerts --from 120

docs/webhooks.md describes requests, and how a receiver checks their signature.
`;

function stateOf({ failures, because, againAtMs, deliveredAtMs }: CallOutput<"webhooks">[number]): string {
  if (failures !== undefined)
    return `failed ${failures === 1 ? "once" : `${failures} times`}: ${because ?? "?"}; again ${againAtMs === undefined ? "soon" : formatTime(againAtMs)}`;
  return deliveredAtMs === undefined ? "-" : `delivered ${formatTime(deliveredAtMs)}`;
}

export const commands = [
  plain("addWebhook", {
    name: "add",
    about: "send the facts of a fleet to an address",
    takes: { name: "letters, digits, - and _", url: "http:// or https://" },
    options: {
      types: "<types> types of facts, separated by commas (stemma journal list shows them); default all",
      from: "<position> position of the first fact; default only facts from now on",
    },
    print: ({ fleet, position }, { name }) => ({
      names: [name],
      text: `${name} gets the facts of ${fleet} from ${position} on, while a server runs`,
    }),
  }),
  plain("webhooks", {
    name: "list",
    about: "webhooks of all fleets, and how their deliveries go",
    print: (webhooks) =>
      listed(webhooks, {
        nameOf: (row) => row.name,
        columns: [
          { title: "NAME", value: (row) => row.name },
          { title: "FLEET", value: (row) => row.fleet },
          { title: "URL", value: (row) => row.url },
          { title: "TYPES", value: (row) => row.types?.join(",") ?? "all" },
          { title: "BEHIND", value: (row) => `${row.behind}` },
          { title: "STATE", value: stateOf },
        ],
        empty: "no webhooks: `stemma webhook add NAME URL` adds one",
      }),
  }),
  plain("testWebhook", {
    name: "test",
    about: "send a signed request without facts, and tell what the receiver answered",
    takes: { name: "" },
    print: ({ isDelivered, because }, { name }) => ({
      names: [name],
      text: isDelivered
        ? `${name} took the request`
        : `${name} did not take the request: ${because ?? "no reason given"}`,
      ...(isDelivered ? {} : { status: exitStatus.failed }),
    }),
  }),
  plain("moveWebhook", {
    name: "move",
    about: "send facts again, or pass some over",
    takes: { name: "" },
    options: { from: "<position> position of the next fact to send" },
    print: ({ position }, { name }) => ({ names: [name], text: `${name} goes on with fact ${position}` }),
  }),
  plain("removeWebhook", {
    name: "rm",
    about: "send nothing to a webhook any more",
    takes: { name: "" },
    print: (left, { name }) => ({ names: left.map((row) => row.name), text: `removed the webhook ${name}` }),
  }),
];
