/** `stemma token add|list|rm`: tokens of the HTTP port, each with a name and a role. */
import { StemmaError } from "../../../../shared/errors.js";
import { formatTime } from "../../../../shared/cli/output.js";
import { roles, type Role } from "../../../interface/api/operation.js";
import { listed, plain } from "../../plain-command.js";

export const help = `
Roles: viewer reads; operator also changes models, devices, data and storage; admin also
approves training engines, copies backups to the server's disk, and makes tokens. The token
in the home's file http-token has the role admin. Facts name the token that caused them.
`;

/** @throws USAGE */
function roleOf(text: string): Role {
  const role = roles.find((known) => known === text);
  if (role !== undefined) return role;
  throw new StemmaError("USAGE", `--role ${text} is not a role. Use one of ${roles.join(", ")}.`);
}

export const commands = [
  plain("addToken", {
    name: "add",
    about: "make a token; it is shown once, and only its hash is kept",
    takes: { name: "letters, digits, - and _" },
    options: { role: { text: `<role> one of ${roles.join(", ")}`, read: roleOf } },
    print: ({ token }) => ({
      names: [token],
      text: `${token}\nKeep it: it is not shown again. Clients give it in STEMMA_TOKEN.`,
    }),
  }),
  plain("tokens", {
    name: "list",
    about: "names and roles; the tokens themselves are not kept",
    print: (tokens) =>
      listed(tokens, {
        nameOf: (row) => row.name,
        columns: [
          { title: "NAME", value: (row) => row.name },
          { title: "ROLE", value: (row) => row.role },
          { title: "MADE", value: (row) => formatTime(row.madeAtMs) },
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
