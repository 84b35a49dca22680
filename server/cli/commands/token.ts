/** `stemma token add|list|rm`: tokens of the HTTP port, each with a name and a role. */
import type { Command } from "commander";
import { StemmaError } from "../../../shared/errors.js";
import { formatTime } from "../../../shared/cli/output.js";
import { roles, type Role } from "../../interface/api/operation.js";
import { withContext, type CommandContext } from "../context.js";

const help = `
Roles: viewer reads; operator also changes models, devices, data and storage; admin also
approves training engines, copies backups to the server's disk, and makes tokens. The token
in the home's file http-token has the role admin. Facts name the token that caused them.
`;

export function addTokenCommands(token: Command): void {
  token.addHelpText("afterAll", help);
  token
    .command("add")
    .argument("<name>", "letters, digits, - and _")
    .requiredOption("--role <role>", `one of ${roles.join(", ")}`)
    .description("make a token; it is shown once, and only its hash is kept")
    .action(async (name: string, { role }: { role: string }, command: Command) =>
      withContext(command, (context) => addCommand(name, role, context)),
    );
  token
    .command("list")
    .description("names and roles; the tokens themselves are not kept")
    .action(async (_: unknown, command: Command) => withContext(command, listCommand));
  token
    .command("rm")
    .argument("<name>")
    .description("refuse a token from now on")
    .action(async (name: string, _: unknown, command: Command) =>
      withContext(command, async ({ output, operations }) => {
        const left = await (await operations()).removeToken({ name });
        output.print({ data: left, names: left.map((row) => row.name), text: `removed the token ${name}` });
      }),
    );
}

async function addCommand(name: string, role: string, { output, operations }: CommandContext): Promise<void> {
  if (!roles.includes(role as Role))
    throw new StemmaError("USAGE", `--role ${role} is not a role. Use one of ${roles.join(", ")}.`);
  const made = await (await operations()).addToken({ name, role: role as Role });
  output.print({
    data: made,
    names: [made.token],
    text: `${made.token}\nKeep it: it is not shown again. Clients give it in STEMMA_TOKEN.`,
  });
}

async function listCommand({ output, operations }: CommandContext): Promise<void> {
  const rows = await (await operations()).tokens();
  output.printRows(rows, {
    nameOf: (row) => row.name,
    columns: [
      { title: "NAME", value: (row) => row.name },
      { title: "ROLE", value: (row) => row.role },
      { title: "MADE", value: (row) => formatTime(row.madeAtMs) },
    ],
    empty: "no tokens besides the home's own, in its file http-token (role admin)",
  });
}
