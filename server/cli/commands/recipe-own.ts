/** `stemma recipe init|check|run|approve|revoke` and `recipe list --own`: a fleet's own recipes. */
import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Command } from "commander";
import { nodeClock } from "../../../shared/adapters/node-ports.js";
import { appendValue, parseAssignments } from "../../../shared/cli/command-line.js";
import { formatDuration, formatTime, type Column } from "../../../shared/cli/output.js";
import { StemmaError } from "../../../shared/errors.js";
import { isHash } from "../../../shared/tensor/hash.js";
import { bundleId, maxBundleBytes } from "../../../shared/train/own-recipes/bundle.js";
import type { DatasetReference } from "../../../shared/train/training.js";
import type { CallOutput } from "../../interface/api/server-operations.js";
import { maxMinutes } from "../../interface/api/models/replay-schemas.js";
import { recipeConfinementOf, trainingLimitsOf } from "../../operations/configuration/config-file.js";
import type { RecipeTrial, TrialResult } from "../../learning/training/check-recipe.js";
import { withContext, type CommandContext } from "../context.js";
import { inputOption } from "../input-option.js";

const help = `
A recipe of one's own is one file, an ES module that imports nothing but stemma:recipe:

  stemma recipe init my-recipe           # a recipe that trains as it is
  stemma recipe check my-recipe          # is its training exact?
  stemma recipe approve my-recipe        # let this fleet's server run it
  stemma model train --recipe my-recipe --data DATA --name MODEL

Approving one means that the server runs its code, in a confined process.
docs/recipes-of-your-own.md has the whole path.
`;

interface TrialChoices {
  readonly reader?: string;
  readonly location?: string;
  readonly read: string[];
  readonly set: string[];
  readonly seed: string;
  readonly maxMinutes?: number;
  readonly to?: string;
}

export function addOwnRecipeCommands(recipe: Command): void {
  recipe
    .command("init")
    .argument("<folder>", "a new folder, or an empty one")
    .description("write a recipe that trains as it is, to be changed")
    .addHelpText("after", help)
    .action(async (folder: string, _: unknown, command: Command) =>
      withContext(command, (context) => initCommand(folder, context)),
    );
  const onData = (command: Command): Command =>
    command
      .argument("<path>", "the recipe's file, or the folder that recipe.mjs is in")
      .option("--reader <name>", "how data are read (see: stemma data add --help); default: a generator's")
      .option("--location <path>", "folder or file of the data")
      .option("--read <key=value>", "a parameter of the reader (repeatable)", appendValue, [])
      .option("--set <key=value>", "a parameter of the recipe (repeatable)", appendValue, [])
      .option("--seed <number>", "seed of every random stream", "1")
      .addOption(inputOption("--max-minutes <n>", maxMinutes));
  onData(recipe.command("check"))
    .description("train twice, in two processes with other numbers of threads, and compare every tensor")
    .addHelpText("after", help)
    .action(async (path: string, choices: TrialChoices, command: Command) =>
      withContext(command, (context) => checkCommand(path, choices, context)),
    );
  onData(recipe.command("run"))
    .option("--to <folder>", "keep the model here")
    .description("train once and print the result; nothing is saved in a fleet")
    .action(async (path: string, choices: TrialChoices, command: Command) =>
      withContext(command, (context) => runCommand(path, choices, context)),
    );
  recipe
    .command("approve")
    .argument("<path>", "the recipe's file, or the folder that recipe.mjs is in")
    .option("--expect <hash>", "refuse it unless it has this hash, which somebody looked at")
    .option("--because <text>", "kept with the fact", "")
    .option("--dry-run", "only check it", false)
    .description("let this fleet's server run a recipe, named by its hash")
    .addHelpText("after", help)
    .action(async (path: string, choices: ApproveChoices, command: Command) =>
      withContext(command, (context) => approveCommand(path, choices, context)),
    );
  recipe
    .command("revoke")
    .argument("<recipe>", "its name, its hash, or at least 8 digits of that")
    .option("--because <text>", "kept with the fact", "")
    .description("do not run a recipe any more; what it trained stays")
    .action(async (name: string, { because }: { because: string }, command: Command) =>
      withContext(command, async ({ output, operations, options }) => {
        const rows = await (await operations()).revokeRecipe({ fleet: options.fleet, recipe: name, because });
        output.print({ data: rows, names: [name], text: `nothing runs the recipe ${name} any more` });
      }),
    );
}

async function initCommand(folder: string, { output }: CommandContext): Promise<void> {
  const { scaffold, scaffoldFile } = await import("../../../shared/train/own-recipes/scaffold.js");
  const file = join(resolve(folder), scaffoldFile);
  await mkdir(resolve(folder), { recursive: true });
  try {
    await writeFile(file, scaffold, { flag: "wx" });
  } catch (cause) {
    if ((cause as { code?: string }).code !== "EEXIST") throw cause;
    throw new StemmaError("USAGE", `${file} exists, and would be lost. Name another folder.`, { cause });
  }
  output.print({
    data: { file },
    names: [file],
    text: `wrote ${join(folder, scaffoldFile)}; see whether its training is exact: stemma recipe check ${folder}`,
  });
}

/** @throws FILE_MISSING, SIZE_OVER_LIMIT */
async function readBundle(path: string): Promise<Uint8Array> {
  const { scaffoldFile } = await import("../../../shared/train/own-recipes/scaffold.js");
  const found = await stat(resolve(path)).catch(() => undefined);
  const file = found?.isDirectory() === true ? join(resolve(path), scaffoldFile) : resolve(path);
  const size = (await stat(file).catch(() => undefined))?.size;
  if (size === undefined)
    throw new StemmaError("FILE_MISSING", `There is no recipe at ${file}. Name its file, or its folder.`, {
      path: file,
    });
  if (size > maxBundleBytes)
    throw new StemmaError(
      "SIZE_OVER_LIMIT",
      `${file} has ${size} bytes; a recipe has at most ${maxBundleBytes}. Leave out what it does not need.`,
      { path: file },
    );
  return await readFile(file);
}

function datasetOf({ reader, location, read }: TrialChoices): DatasetReference | undefined {
  if (reader === undefined) {
    if (location === undefined && read.length === 0) return undefined;
    throw new StemmaError("USAGE", "--location and --read need --reader, which says how the data are read.");
  }
  const parameters = Object.fromEntries(
    Object.entries(parseAssignments(read)).map(([key, value]) => [
      key,
      typeof value === "string" && value.includes(",") ? value.split(",") : value,
    ]),
  );
  return { reader, parameters, ...(location === undefined ? {} : { location: resolve(location) }) };
}

/** Runs `body` with a trial in a folder that is removed afterwards. */
async function withTrial<T>(
  path: string,
  choices: TrialChoices,
  { options, output, signal }: CommandContext,
  body: (trial: RecipeTrial) => Promise<T>,
): Promise<T> {
  const bundle = await readBundle(path);
  const { costLimitsOf } = await import("../../learning/training/bounded-cost.js");
  const { costText } = await import("../../learning/training/training-cost.js");
  const limits = costLimitsOf(await trainingLimitsOf(options.home), choices.maxMinutes);
  const folder = await mkdtemp(join(tmpdir(), "stemma-recipe-"));
  try {
    return await body({
      bundle,
      confinement: await recipeConfinementOf(options.home),
      dataset: datasetOf(choices),
      parameters: parseAssignments(choices.set),
      seed: choices.seed,
      folder,
      clock: nodeClock(),
      limits,
      onCost: (cost) => {
        output.info(costText(cost, limits));
      },
      signal,
      onProgress: ({ phase, epoch }) => {
        output.progress(epoch === undefined ? phase : `${phase}: epoch ${epoch}`, true);
      },
    });
  } finally {
    output.endProgress();
    await rm(folder, { recursive: true, force: true });
  }
}

async function checkCommand(path: string, choices: TrialChoices, context: CommandContext): Promise<void> {
  const { checkRecipe } = await import("../../learning/training/check-recipe.js");
  const checked = await withTrial(path, choices, context, checkRecipe);
  const { recipe, tensors, threads, dataset } = checked;
  context.output.print({
    data: {
      recipe: recipe.id,
      name: recipe.name,
      version: recipe.version,
      tensors,
      threads,
      dataset,
      exact: true,
    },
    names: [recipe.id],
    text:
      `exact: two trainings on ${dataset.reader}, with ${threads.join(" and ")} threads, gave the same ${tensors} ` +
      `tensors\n${described(checked)}\nits hash is ${recipe.id}`,
  });
}

async function runCommand(path: string, choices: TrialChoices, context: CommandContext): Promise<void> {
  const { tryRecipe } = await import("../../learning/training/check-recipe.js");
  const { to } = choices;
  const result = await withTrial(path, choices, context, async (trial) => {
    const tried = await tryRecipe(trial);
    if (to !== undefined) await keep(tried, resolve(to));
    return tried;
  });
  const { recipe, outcome } = result;
  context.output.print({
    data: {
      recipe: recipe.id,
      name: recipe.name,
      metric: outcome.result.metric,
      epochs: outcome.result.epochs,
      to,
    },
    names: [recipe.id],
    text: `${described(result)}${to === undefined ? "" : `\nkept in ${to}`}`,
  });
}

async function keep({ outcome }: TrialResult, folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, "model.safetensors"), await readFile(outcome.modelFile));
  await writeFile(join(folder, "architecture.json"), await readFile(outcome.architectureFile));
}

function described({ recipe, outcome: { result } }: TrialResult): string {
  const { metric } = result;
  const measured =
    metric === null
      ? "no held-out samples"
      : `${metric.name} ${metric.before.toPrecision(4)} before, ${metric.after.toPrecision(4)} after`;
  return `${recipe.name} ${recipe.version}: ${measured}, ${result.epochs} epochs in ${formatDuration(result.durationMs)}`;
}

interface ApproveChoices {
  readonly expect?: string;
  readonly because: string;
  readonly dryRun: boolean;
}

async function approveCommand(
  path: string,
  { expect, because, dryRun }: ApproveChoices,
  { output, operations, options }: CommandContext,
): Promise<void> {
  const bundle = await readBundle(path);
  if (expect !== undefined && !isHash(expect))
    throw new StemmaError(
      "USAGE",
      `--expect ${expect} is not a hash. Give all 64 hexadecimal digits, as stemma recipe check prints them; ` +
        `${path} has ${bundleId(bundle)}.`,
    );
  const answer = await (
    await operations()
  ).approveRecipe({
    fleet: options.fleet,
    bundle: Buffer.from(bundle).toString("base64"),
    ...(expect === undefined ? {} : { expected: expect }),
    because,
    dryRun,
  });
  output.print({
    data: answer,
    names: [answer.recipe],
    text: `${dryRun ? "would approve" : "approved"} ${answer.name} ${answer.version} (${answer.recipe})`,
  });
}

const columns: readonly Column<CallOutput<"recipes">[number]>[] = [
  { title: "RECIPE", value: (row) => row.name },
  { title: "VERSION", value: (row) => row.version },
  { title: "HASH", value: (row) => row.recipe.slice(0, 12) },
  { title: "SINCE", value: (row) => formatTime(row.atMs) },
  { title: "BY", value: (row) => row.by ?? "-" },
  { title: "VERSIONS", value: (row) => row.versions, align: "right" },
  { title: "DEVICES", value: (row) => row.devices, align: "right" },
  { title: "MAY RUN", value: (row) => (row.revoked === undefined ? "yes" : "no: revoked") },
];

/** The fleet's own recipes. */
export async function listOwnRecipes({ output, operations, options }: CommandContext): Promise<void> {
  output.printRows(await (await operations()).recipes({ fleet: options.fleet }), {
    nameOf: (row) => row.recipe,
    columns,
    empty: "no recipe of this fleet's own was approved; begin one with: stemma recipe init FOLDER",
  });
}
