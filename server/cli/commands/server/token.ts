/** `stemma token add|list|rm`: tokens of the HTTP port, each with a name, a role, and what it is limited to. */
import { StemmaError } from "../../../../shared/errors.js";
import { formatTime } from "../../../../shared/cli/output.js";
import { roles } from "../../../interface/api/rights.js";
import { listed, plain } from "../../plain-command.js";
import { parseValid } from "../../quantities.js";

export const help = `
Roles: viewer reads, but no samples; publisher also publishes models to this hub; releaser
reads, publishes what the owner's keys signed and rolls that out; operator reads all and
changes models, devices, data and storage; admin also approves training engines, copies
backups to the server's disk, and makes tokens. The token in the home's file http-token has
the role admin. Facts name the token that caused them.

A token of --fleets sees and changes only these. It cannot do what is about the whole server:
tokens, webhooks, storage tiers, backups, engines, data from files of the server's machine.
`;

export const commands = [
  plain("addToken", {
    name: "add",
    about: "make a token; it is shown once, and only its hash is kept",
    takes: { name: "letters, digits, - and _" },
    options: {
      role: `<role> one of ${roles.join(", ")}`,
      fleets: "<fleets> limit it to these, with commas between (all, also later ones)",
      valid: "<time> refuse it after hours or days: 12h, 90d (until it is removed)",
    },
    input: ({ fleets, valid }, { options }) => {
      if (options.isFleetNamed && (fleets === undefined || fleets.length === 0))
        throw new StemmaError(
          "USAGE",
          `--fleet ${options.fleet} does not limit a token. Write --fleets ${options.fleet}, or leave --fleet out for a token of all fleets.`,
        );
      return valid === undefined ? {} : { validMs: parseValid(valid) };
    },
    print: ({ token, role, fleets, expiresAtMs }) => ({
      names: [token],
      // Alone on stdout: `token add … > FILE` makes the file that `context add --token-file` reads.
      text: token,
      notes: [
        `Its role is ${role}, for ${fleets === undefined ? "all fleets" : fleets.join(", ")}, ` +
          `${expiresAtMs === undefined ? "until it is removed" : `until ${formatTime(expiresAtMs)}`}.`,
        "Keep it: it is not shown again. Clients give it in STEMMA_TOKEN.",
      ],
    }),
  }),
  plain("tokens", {
    name: "list",
    about: "names, roles and limits; the tokens themselves are not kept",
    print: (tokens) =>
      listed(tokens, {
        nameOf: (row) => row.name,
        columns: [
          { title: "NAME", value: (row) => row.name },
          { title: "ROLE", value: (row) => row.role },
          { title: "FLEETS", value: (row) => row.fleets?.join(",") ?? "all" },
          { title: "MADE", value: (row) => formatTime(row.madeAtMs) },
          { title: "ENDS", value: endOf },
        ],
        empty: "no tokens besides the home's own, in its file http-token (role admin)",
      }),
  }),
  plain("removeToken", {
    name: "rm",
    about: "refuse a token from now on",
    takes: { name: "" },
    print: (left, { name }) => ({ names: left.map((row) => row.name), text: `removed the token ${name}` }),
  }),
];

function endOf({ expiresAtMs }: { readonly expiresAtMs?: number }): string {
  if (expiresAtMs === undefined) return "never";
  return expiresAtMs <= Date.now() ? `expired ${formatTime(expiresAtMs)}` : formatTime(expiresAtMs);
}
