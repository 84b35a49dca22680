/** `stemma storage policy show|set|unset|apply`: drop the tensors of proved models after a while. */
import type { Command } from "commander";
import { StemmaError } from "../../../shared/errors.js";
import { formatBytes, formatTime, type Column } from "../../../shared/cli/output.js";
import { defaultDropMinutes, dropPolicy } from "../../interface/api/stores/drop-schemas.js";
import type { CallOutput } from "../../interface/api/server-operations.js";
import { printScope } from "../../storage/repository/retention/retention-plan.js";
import { withContext, type CommandContext } from "../context.js";
import { inputOption } from "../input-option.js";
import { scopeOfChoices, type ScopeChoices } from "../scope-choices.js";
import { nameOf } from "../version-text.js";
import { describeDrop } from "./storage-drop.js";

const help = `
A policy drops the tensors of models that this server proved by a replay, some days after they were
recorded: a recovery trains them again. It never replays anything itself: see what is proved with
stemma replay list, and prove with stemma replay run. A name's policy overrides its line's, a
line's overrides the fleet's. A server applies them with its retention rules, once a day.

A policy that keeps tensors can drop the stored data of proved models instead: what was proved
stays so, but cannot be replayed again. Data that another model, or a registered name, needs stay.

  stemma storage policy set --after 30 --max-minutes 5
  stemma storage policy set --keep --line engine-wear
  stemma storage policy set --keep --data-after 90 --name soh
  stemma storage policy apply --dry-run
  stemma storage gc
`;

type Policies = CallOutput<"dropPolicies">;
interface SetChoices extends ScopeChoices {
  readonly after?: number;
  readonly keep: boolean;
  readonly dataAfter?: number;
  readonly maxMinutes?: number;
}

const columns: readonly Column<Policies[number]>[] = [
  { title: "OF", value: (row) => printScope(row.scope) },
  { title: "TENSORS", value: ({ policy }) => describePolicy(policy) },
  { title: "SET", value: (row) => formatTime(row.setAtMs) },
  { title: "BY", value: (row) => row.by },
];

function describePolicy({ afterDays, maxMinutes, dataAfterDays }: Policies[number]["policy"]): string {
  const data =
    dataAfterDays === undefined ? "" : `; stored data of proved models go after ${dataAfterDays} days`;
  return afterDays === null
    ? `are kept${data}`
    : `of proved models go after ${afterDays} days, where a recovery trains for at most ${maxMinutes} min`;
}

export function addStoragePolicyCommands(storage: Command): void {
  const policy = storage
    .command("policy")
    .description("drop the tensors of proved models after a while: for the fleet, a line or a name")
    .addHelpText("afterAll", help);
  policy
    .command("show")
    .description("the policies that are set")
    .action(async (_: unknown, command: Command) =>
      withContext(command, async ({ output, operations, options: { fleet } }) => {
        output.printRows(await (await operations()).dropPolicies({ fleet }), {
          nameOf: (row) => printScope(row.scope),
          columns,
          empty: `no policy is set in the fleet ${fleet}: tensors go only by stemma storage drop`,
        });
      }),
    );
  const { shape } = dropPolicy;
  scoped(policy.command("set"))
    .addOption(inputOption("--after <days>", shape.afterDays.unwrap(), "days after they were recorded"))
    .option("--keep", "keep all tensors, whatever a wider policy says", false)
    .addOption(
      inputOption(
        "--data-after <days>",
        shape.dataAfterDays.unwrap(),
        "with --keep: days after which the stored data of proved models go; these cannot be replayed again",
      ),
    )
    .addOption(
      inputOption(
        "--max-minutes <n>",
        shape.maxMinutes,
        `${shape.maxMinutes.description} (${defaultDropMinutes})`,
      ),
    )
    .description("set a policy; it takes effect when policies are applied next")
    .action(async (choices: SetChoices, command: Command) =>
      withContext(command, (context) => setCommand(choices, context)),
    );
  scoped(policy.command("unset"))
    .description("remove a policy: the next wider one then applies, or none")
    .action(async (choices: ScopeChoices, command: Command) =>
      withContext(command, (context) => change(choices, null, context)),
    );
  policy
    .command("apply")
    .option("--dry-run", "only show what would be dropped", false)
    .description("drop now what the policies say; storage gc then frees the space")
    .action(async ({ dryRun }: { dryRun: boolean }, command: Command) =>
      withContext(command, async ({ output, operations, signal, options: { fleet } }) => {
        const report = await (await operations()).applyDropPolicies({ fleet, dryRun }, { signal });
        output.print({
          data: report,
          names: report.dropped.map(({ versionId }) => versionId),
          text: [...describeDrop(report, dryRun), ...describeDataDrop(report.data, dryRun)].join("\n"),
        });
      }),
    );
}

function describeDataDrop(data: CallOutput<"applyDropPolicies">["data"], isDry: boolean): readonly string[] {
  if (data === undefined) return [];
  const { dropped, kept, freedBytes } = data;
  const verb = isDry ? "would be dropped" : "dropped";
  return [
    ...dropped.map(
      (row) =>
        `${nameOf(row)}: data of its training ${verb}, ${formatBytes(row.dataBytes)}, of which ` +
        `${formatBytes(row.freedBytes)} nothing else needs; it cannot be replayed again`,
    ),
    ...kept.map((row) => `${nameOf(row)}: its data stay: ${row.because}`),
    `data of ${dropped.length} models ${verb}, ${formatBytes(freedBytes)} to be freed by stemma storage gc`,
  ];
}

function scoped(command: Command): Command {
  return command
    .option("--line <line>", "only for this line of every device")
    .option("--name <name>", "only for models of this name");
}

async function setCommand(choices: SetChoices, context: CommandContext): Promise<void> {
  const { after, keep, dataAfter, maxMinutes = defaultDropMinutes } = choices;
  if (keep === (after !== undefined))
    throw new StemmaError("USAGE", "Say when tensors go with --after DAYS, or that they stay with --keep.");
  const afterDays = keep ? null : (after ?? null);
  const data = dataAfter === undefined ? {} : { dataAfterDays: dataAfter };
  await change(choices, { afterDays, maxMinutes, ...data }, context);
}

async function change(
  choices: ScopeChoices,
  policy: Policies[number]["policy"] | null,
  { output, operations, options: { fleet } }: CommandContext,
): Promise<void> {
  const scope = scopeOfChoices(choices);
  const rows = await (await operations()).setDropPolicy({ fleet, scope, policy });
  const described = policy === null ? "no policy of its own" : `tensors ${describePolicy(policy)}`;
  output.print({
    data: rows,
    names: rows.map((row) => printScope(row.scope)),
    text: `${printScope(scope)}: ${described}; see what goes with: stemma storage policy apply --dry-run`,
  });
}
