/** `stemma model descendants|common|owners|successor`: how the models of a fleet descend from each other. */
import type { Command } from "commander";
import { formatBytes, formatTime, type Column } from "../../../shared/cli/output.js";
import { lineageOperations } from "../../interface/api/models/lineage-definitions.js";
import type { Successors, TensorOwner } from "../../interface/api/models/lineage-definitions.js";
import { withContext } from "../context.js";
import { inputOption } from "../input-option.js";
import { describeBy, nameOf, stateOf } from "../version-text.js";

interface PageChoices {
  readonly limit?: number;
  readonly offset?: number;
}

export function addModelLineageCommands(model: Command): void {
  const { descendants, owners } = lineageOperations;
  model
    .command("descendants")
    .argument("<model>")
    .description("the models that were trained from this one, directly or through others")
    .addOption(inputOption("--limit <n>", descendants.query.shape.limit, "at most n (100)"))
    .addOption(inputOption("--offset <n>", descendants.query.shape.offset, "skip the first n"))
    .action(descendantsCommand);
  model
    .command("common")
    .argument("<a>")
    .argument("<b>")
    .description("the newest model from which two models both descend")
    .action(commonCommand);
  model
    .command("owners")
    .argument("<model>")
    .description("which of its ancestors last changed which tensors of a model")
    .option("--all", "also ancestors of which no tensor is left", false)
    .addOption(inputOption("--limit <n>", owners.query.shape.limit, "at most n (100)"))
    .addOption(inputOption("--offset <n>", owners.query.shape.offset, "skip the newest n"))
    .action(ownersCommand);
  addSuccessorCommands(model);
}

async function descendantsCommand(reference: string, page: PageChoices, command: Command): Promise<void> {
  await withContext(command, async ({ output, operations, options }) => {
    const answer = await (
      await operations()
    ).descendants({ fleet: options.fleet, model: reference, ...page });
    const rows = answer.descendants;
    output.print({
      data: answer,
      names: rows.map(({ version }) => nameOf(version)),
      table: {
        rows,
        columns: [
          { title: "MODEL", value: ({ version }) => nameOf(version) },
          { title: "ID", value: ({ version }) => version.versionId.slice(0, 12) },
          { title: "GENERATION", value: ({ generation }) => generation, align: "right" },
          { title: "DEVICE", value: ({ version }) => version.record.device || "-" },
          { title: "STATE", value: ({ version }) => stateOf(version) },
          { title: "SAVED", value: ({ version }) => formatTime(version.record.savedAtMs) },
        ],
        empty: answer.total === 0 ? "nothing was trained from it" : "none is left after --offset",
      },
    });
    noteMore(output, { shown: rows.length, offset: page.offset ?? 0, total: answer.total });
  });
}

function noteMore(
  output: { info(line: string): void },
  { shown, offset, total }: { readonly shown: number; readonly offset: number; readonly total: number },
): void {
  const next = offset + shown;
  if (shown > 0 && next < total)
    output.info(`stemma: note: ${shown} of ${total} are shown; more follow with --offset ${next}`);
}

async function commonCommand(a: string, b: string, _: unknown, command: Command): Promise<void> {
  await withContext(command, async ({ output, operations, options }) => {
    const answer = await (await operations()).commonAncestor({ fleet: options.fleet, a, b });
    output.print({
      data: answer,
      names: answer === null ? [] : [nameOf(answer.version)],
      text:
        answer === null
          ? `${a} and ${b} have no common ancestor in the fleet ${options.fleet}`
          : `${nameOf(answer.version)} (${answer.version.versionId.slice(0, 12)}), ` +
            `${trainings(answer.generations.a)} before ${a} and ${trainings(answer.generations.b)} before ${b}`,
    });
  });
}

function trainings(count: number): string {
  return count === 1 ? "1 training" : `${count} trainings`;
}

const ownerColumns: readonly Column<TensorOwner>[] = [
  { title: "OWNER", value: (row) => nameOf(row) },
  { title: "GENERATIONS AGO", value: (row) => row.generation, align: "right" },
  { title: "TENSORS", value: (row) => row.tensors.length, align: "right" },
  { title: "BYTES", value: (row) => formatBytes(row.bytes), align: "right" },
  { title: "STATE", value: (row) => row.state },
  { title: "SAVED", value: (row) => (row.savedAtMs === null ? "-" : formatTime(row.savedAtMs)) },
];

async function ownersCommand(
  reference: string,
  choices: PageChoices & { readonly all: boolean },
  command: Command,
): Promise<void> {
  await withContext(command, async ({ output, operations, options }) => {
    const answer = await (await operations()).owners({ fleet: options.fleet, model: reference, ...choices });
    const { owners, total, withoutTensors } = answer;
    output.print({
      data: answer,
      names: owners.map(nameOf),
      table: { rows: owners, columns: ownerColumns, empty: "none is left after --offset" },
      ...(choices.all || withoutTensors === 0
        ? {}
        : { text: `${withoutTensors} ancestors have no tensor left in it (--all lists them)` }),
    });
    noteMore(output, { shown: owners.length, offset: choices.offset ?? 0, total });
  });
}

function addSuccessorCommands(model: Command): void {
  const successor = model
    .command("successor")
    .description("declare which model comes after another one, whatever it was trained from");
  for (const [name, remove, about] of [
    ["set", false, "declare that <successor> comes after <model>"],
    ["rm", true, "take that back"],
  ] as const)
    successor
      .command(name)
      .argument("<model>")
      .argument("<successor>")
      .option("--because <text>", "why; it is kept with the fact", "")
      .description(about)
      .action(
        async (reference: string, next: string, { because }: { because: string }, command: Command) =>
          await printRelations(command, reference, { successor: next, remove, because }),
      );
  successor
    .command("list")
    .argument("<model>")
    .description("what was declared to come before and after a model")
    .action(async (reference: string, _: unknown, command: Command) =>
      printRelations(command, reference, undefined),
    );
}

async function printRelations(
  command: Command,
  reference: string,
  change: { readonly successor: string; readonly remove: boolean; readonly because: string } | undefined,
): Promise<void> {
  await withContext(command, async ({ output, operations, options }) => {
    const input = { fleet: options.fleet, model: reference };
    const opened = await operations();
    const answer = await (change === undefined
      ? opened.successors(input)
      : opened.setSuccessor({ ...input, ...change }));
    const rows = [
      ...answer.before.map((relation) => ({ ...relation, when: "before" })),
      ...answer.after.map((relation) => ({ ...relation, when: "after" })),
    ];
    output.print({
      data: answer,
      names: rows.map(nameOf),
      table: {
        rows,
        columns: [
          { title: "COMES", value: (row) => row.when },
          { title: "MODEL", value: (row) => nameOf(row) },
          { title: "STATE", value: (row) => row.state },
          { title: "DECLARED", value: describeDeclared },
        ],
        empty: "nothing is declared to come before or after it",
      },
    });
  });
}

function describeDeclared({ declared }: Successors["after"][number]): string {
  if (declared === undefined) return "with the save";
  const { atMs, because, by } = declared;
  return `${formatTime(atMs)}${describeBy(by)}${because === "" ? "" : `: ${because}`}`;
}
