/** `stemma storage plan|apply`: plans how to store a fleet in fewer bytes, and re-encodes it as planned. */
import { resolve } from "node:path";
import { Option, type Command } from "commander";
import { defined } from "../../../../shared/defined.js";
import { exitStatus, StemmaError } from "../../../../shared/errors.js";
import { regularFiles } from "../../../../shared/files/regular-files.js";
import { nodeFiles } from "../../../../shared/files/node-files.js";
import { writeDurably } from "../../../../shared/files/durable-write.js";
import type { Output } from "../../../../shared/cli/output.js";
import { maxPlanBytes, readArchivePlan, type ArchivePlan } from "../../../storage/archive/archive-plan.js";
import { planningOperations } from "../../../interface/api/stores/planning-definitions.js";
import type { OperationInput } from "../../../interface/api/server-operations.js";
import type { StorageApplied } from "../../../interface/api/stores/planning-schemas.js";
import { withContext, type CommandContext } from "../../context.js";
import { checkInput, inputOption } from "../../input-option.js";
import { parseBytes, parseDuration, parseRatio } from "../../quantities.js";
import { applyTierCommand, planTierCommand } from "./tier.js";
import { describeApplied, describeCandidates, describePart, describePlan } from "../../storage-plan-text.js";

type PlanInput = OperationInput<"planStorage">;
type ApplyInput = OperationInput<"applyStorage">;

interface PlanChoices {
  readonly budget: string;
  readonly scheme: PlanInput["scheme"];
  readonly layout: PlanInput["layout"];
  readonly search: PlanInput["timeLimitMs"];
  readonly readRate?: PlanInput["readBytesPerSecond"];
  readonly measure: boolean;
  readonly out?: string;
  readonly after?: string;
  readonly tier?: string;
}
export interface ApplyChoices extends PlanChoices {
  readonly plan?: string;
  readonly disk?: ApplyInput["diskBytes"];
  readonly time?: ApplyInput["timeMs"];
  readonly dryRun: boolean;
}

const planHelp = `
Tensors can be stored raw, packed, or as the difference from a related one,
which is smaller but slower to rebuild. The budget limits how much slower a
recovery may become (a disk that answers without its cache, one decoder,
hashing).
  auto   the default: 1.6 times the cost of the smallest form without
         differences, or as much as now where that is more. It never makes
         the fleet larger than it is stored now.
  2x     each version may cost twice what it would with everything stored for
         speed. To keep that, a fleet may have to grow; the plan says so.
  none   the smallest size at any cost. Only the length of chains is bounded:
         24 tensors to decode before another one.

  stemma storage plan                        what the default would bring
  stemma storage plan --budget 3x --out p    the same for 3x, kept as a file
  stemma storage apply --plan p              store the fleet as planned

One plan takes 50,000 tensors, or one version of more. A larger fleet is
planned from its oldest versions on; the plan says up to which one, and --after
plans the next ones. apply without a plan goes through all of them.
`;
const applyHelp = `
Saves, recoveries and collections go on while this runs. No model's name, id or
bytes change. It can be stopped or killed at any moment: every model stays
intact, and the next apply continues. Superseded copies, and everything else
that nothing refers to any more, are collected on the way. Exit status 5:
something was left for the next time.

  stemma storage apply --budget 2x --time 10m
  stemma storage apply --dry-run             what would be rewritten
`;

export function addStoragePlanCommands(storage: Command): void {
  const plan = storage
    .command("plan")
    .description("show how small the fleet could be stored, and what recoveries would cost; changes nothing");
  addPlanOptions(plan)
    .option("--out <file>", "write the complete plan to this file, for apply")
    .option("--after <model>", "plan the versions after this one, where one plan does not take all")
    .option("--tier <name>", "instead: what moving old versions to this tier would bring")
    .addHelpText("after", planHelp)
    .action(async (choices: PlanChoices, command: Command) =>
      withContext(command, (context) =>
        choices.tier === undefined ? planCommand(choices, context) : planTierCommand(choices.tier, context),
      ),
    );
  const apply = storage
    .command("apply")
    .description("store the fleet as planned, while everything else goes on");
  addApplyOptions(apply)
    .addHelpText("after", applyHelp)
    .action(async (choices: ApplyChoices, command: Command) =>
      withContext(command, (context) => applyOrMove(choices, context)),
    );
}

/** Options of what applies a plan: storage apply, and archive of a model repository. */
export function addApplyOptions(command: Command): Command {
  const { shape } = planningOperations.applyStorage.body;
  return addPlanOptions(command)
    .option("--plan <file>", "a plan made before (storage plan --out); without it one is made now")
    .addOption(
      inputOption(
        "--disk <size>",
        shape.diskBytes,
        "stop where copies that are not dropped yet would take more, such as 2GiB",
        parseBytes,
      ),
    )
    .addOption(
      inputOption("--time <duration>", shape.timeMs, "stop after this time, such as 10m", parseDuration),
    )
    .option("--dry-run", "report what would be rewritten, write nothing", false)
    .option("--tier <name>", "instead: move the low-order bytes of old versions to this tier");
}

function addPlanOptions(command: Command): Command {
  const { shape } = planningOperations.planStorage.body;
  return command
    .addOption(
      new Option(
        "--budget <ratio>",
        "what a version may cost to rebuild: auto, none, or times everything stored for speed: 1.6x, 2x, …",
      )
        .default("auto")
        // Commander cannot keep the null that stands for "none", so the text is checked here and read later.
        .argParser((text: string) => {
          checkInput({ name: "--budget", text, schema: shape.ratio, read: parseRatio });
          return text;
        }),
    )
    .addOption(
      inputOption(
        "--scheme <scheme>",
        shape.scheme,
        "how the tensors of a version are rebuilt: one after the other (independent) or concurrently (parallel)",
      ).default("independent"),
    )
    .addOption(inputOption("--layout <layout>", shape.layout).default("packed"))
    .addOption(
      inputOption(
        "--search <duration>",
        shape.timeLimitMs,
        "how long to look for better plans, at most 1h",
        parseDuration,
      ).default(10_000, "10s"),
    )
    .option("--measure", "measure disk and processor again, instead of using the remembered figures", false)
    .addOption(
      inputOption(
        "--read-rate <size>",
        shape.readBytesPerSecond,
        "bytes per second that the disk reads, such as 200MB; without it measured once and remembered",
        parseBytes,
      ),
    );
}

async function planCommand(choices: PlanChoices, context: CommandContext): Promise<void> {
  const { output, operations, options, signal } = context;
  const plan = await (
    await operations()
  ).planStorage(
    { fleet: options.fleet, ...planInputOf(choices), ...defined({ after: choices.after }) },
    { onProgress: progressLines(output), signal },
  );
  output.endProgress();
  const file = choices.out === undefined ? undefined : resolve(choices.out);
  if (file !== undefined) await writeDurably(nodeFiles(), file, Buffer.from(`${JSON.stringify(plan)}\n`));
  output.print({
    data: plan,
    names: plan.plan.vertices.map(({ vertex, kind }) => `${vertex} ${kind}`),
    text: [
      ...describePlan(plan),
      ...describeCandidates(plan),
      ...describePart(plan),
      ...(file === undefined ? [] : [`written to ${file}`]),
    ].join("\n"),
  });
}

/** Applies a plan; with `--tier`, tensors are moved, and stored as they are. */
export async function applyOrMove(choices: ApplyChoices, context: CommandContext): Promise<void> {
  const { tier, dryRun, plan, disk, time } = choices;
  if (tier === undefined) return await applyCommand(choices, context);
  if (plan !== undefined || disk !== undefined || time !== undefined)
    throw new StemmaError(
      "USAGE",
      "--tier cannot be used with --plan, --disk or --time: it moves old versions as they are stored. Leave them out; it can be stopped at any moment, and continues when it is run again.",
    );
  return await (dryRun ? planTierCommand(tier, context) : applyTierCommand(tier, context));
}

async function applyCommand(choices: ApplyChoices, context: CommandContext): Promise<void> {
  const { output, operations, options, signal } = context;
  const plan = choices.plan === undefined ? undefined : await readPlan(resolve(choices.plan));
  const applied = await (
    await operations()
  ).applyStorage(
    {
      fleet: options.fleet,
      ...planInputOf(choices),
      dryRun: choices.dryRun,
      ...defined({ plan }),
      diskBytes: choices.disk,
      timeMs: choices.time,
    },
    { onProgress: progressLines(output), signal },
  );
  output.endProgress();
  process.exitCode = statusOf(applied);
  output.print({
    data: applied,
    names: [applied.report.fleet],
    text: describeApplied(applied).join("\n"),
  });
}

function statusOf({ report: { failed, dryRun, left, stopped, hasNext } }: StorageApplied): number {
  if (failed.length > 0) return exitStatus.verification;
  return !dryRun && (left > 0 || (stopped !== null && hasNext)) ? exitStatus.partly : exitStatus.done;
}

/** The time between two lines of progress where there is no terminal. */
const progressEveryMs = 2000;
function progressLines(output: Output): (line: string) => void {
  let next = performance.now() + progressEveryMs;
  return (line) => {
    const now = performance.now();
    const isDue = now >= next;
    if (isDue) next = now + progressEveryMs;
    if (isDue || output.isTerminal) output.progress(line, true);
  };
}

function planInputOf({
  budget,
  scheme,
  layout,
  search,
  readRate,
  measure,
}: PlanChoices): Omit<PlanInput, "fleet"> {
  return {
    ratio: parseRatio(budget),
    scheme,
    layout,
    timeLimitMs: search,
    readBytesPerSecond: readRate,
    ...(measure ? { measure } : {}),
  };
}

async function readPlan(path: string): Promise<ArchivePlan> {
  const found = await nodeFiles().stat(path);
  if (found?.kind !== "file")
    throw new StemmaError(
      "NOT_FOUND",
      `The file ${path} does not exist. Make a plan with \`stemma storage plan --out ${path}\`.`,
    );
  if (found.size > maxPlanBytes)
    throw new StemmaError(
      "SIZE_OVER_LIMIT",
      `${path} has ${found.size} bytes; a plan has at most ${maxPlanBytes}. Name the file that \`stemma storage plan --out\` wrote.`,
    );
  const bytes = await regularFiles().read(path);
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder().decode(bytes));
  } catch (cause) {
    throw new StemmaError(
      "PLAN_INVALID",
      `${path} is not a storage plan: it is not JSON. Make one with \`stemma storage plan --out FILE\`.`,
      { cause },
    );
  }
  return readArchivePlan(value);
}

export const commands = [addStoragePlanCommands];
