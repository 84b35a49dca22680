/** `stemma model recover` (also `export`): a model as a file, or what a whole fleet ran at a moment. */
import { basename, dirname, extname, join, resolve } from "node:path";
import { Option, type Command } from "commander";
import { defined } from "../../../../shared/defined.js";
import { StemmaError } from "../../../../shared/errors.js";
import { writeDurably } from "../../../../shared/files/durable-write.js";
import { nodeFiles } from "../../../../shared/files/node-files.js";
import { appendValue } from "../../../../shared/cli/command-line.js";
import { formatBytes, formatDuration } from "../../../../shared/cli/output.js";
import { modelOperations } from "../../../interface/api/models/model-definitions.js";
import type { OperationInput, RecoveryStream } from "../../../interface/api/server-operations.js";
import type { RecoveryForm, RecoveryReport } from "../../../interface/api/models/version-schemas.js";
import { withContext, type CommandContext } from "../../context.js";
import { requireEndingOfFile, requireEndingOfForm } from "../../file-ending.js";
import { inputOption } from "../../input-option.js";
import { refuseExisting, writeStreamDurably, writeStreamTo } from "../../stream-file.js";
import { modelJsonText, tfjsNames } from "../../tfjs-files.js";
import { nameOf } from "../../version-text.js";
import { explainCommand } from "../../explain-recovery.js";
import { recoverFleet } from "./recover-fleet.js";
import { recoverMerged } from "./recover-merged.js";

interface RecoverChoices {
  readonly file?: string;
  readonly at?: string;
  readonly folder?: string;
  readonly form: RecoveryForm;
  readonly layout?: "original";
  readonly environment: NonNullable<OperationInput<"recover">["environment"]>;
  readonly checkpoint?: number;
  readonly layers?: readonly string[];
  readonly with?: "optimizer";
  readonly merged: boolean;
  readonly force: boolean;
  readonly story: boolean;
  readonly explain: boolean;
}

const help = `
Without --file and --folder the model is recovered and verified, and nothing is
written. --file - writes the model to a pipe and the report to stderr; use what
came through the pipe only if the command ends with status 0.

  stemma model recover pack-soh --file soh.safetensors
  stemma model recover pack-soh --file - | sha256sum
  stemma model recover detector --file detector.tflite
      a file that was saved with --as file
  stemma model recover pack-soh --form tfjs --folder web
      web/model.json and web/weights.bin, for tf.loadLayersModel
  stemma model recover pack-soh --checkpoint 200 --file after-200.safetensors
      the model after 200 training steps; an unknown number lists those that exist
  stemma model recover pack-soh --with optimizer --file soh.safetensors
      soh.safetensors and soh.optimizer.safetensors
  stemma model recover detector --layers 'backbone.*' --file backbone.safetensors
      only these tensors, and only they are read; each one is verified
  stemma model recover detector --explain
      from what it would be recovered, and how long that takes by this machine's rates
  stemma model recover --fleet cars --at 2026-11-21T09:30:00Z --folder then
`;

function addModelRecoverCommands(model: Command): void {
  const { shape } = modelOperations.recover.query;
  for (const verb of ["recover", "export"] as const) {
    model
      .command(verb, { hidden: verb === "export" })
      .argument("[model]")
      .description("recover a model bit for bit, or what a whole fleet ran at a moment")
      .option("--file <path>", "write the model to this file, - for a pipe (form tfjs: its model.json)")
      .option(
        "--no-story",
        "leave out how the model was made, which a file of a model trained by Stemma carries",
      )
      .option("--explain", "recover nothing; state from what it would be, and how long that takes", false)
      .option(
        "--merged",
        "an adapter merged into its base: W + scale * B * A, the same bits on every machine",
        false,
      )
      .option("--force", "overwrite a file that exists", false)
      .option(
        "--at <time>",
        "with --fleet and no model: what every device ran at this moment (2026-11-21T09:30:00Z)",
      )
      .addOption(
        new Option(
          "--folder <dir>",
          "with --at: write every model that ran below this folder; with --form tfjs: write model.json and weights.bin there",
        ),
      )
      .addOption(
        inputOption(
          "--form <form>",
          shape.form,
          "safetensors; tfjs: a model.json and its weights (models with an architecture only); original: the very " +
            "file that was saved; auto: that where it is a file as it is, else safetensors",
        ).default("auto"),
      )
      .addOption(
        new Option(
          "--layout <layout>",
          "original: names and axes of the file from which it, or a version that it came from, was imported with --layout",
        ).choices(["original"]),
      )
      .addOption(inputOption("--checkpoint <iteration>", shape.checkpoint))
      .option(
        "--layers <pattern>",
        "only the tensors of these layers; * stands for any characters, ? for one (repeatable)",
        appendValue,
      )
      .addOption(
        new Option(
          "--with <part>",
          "optimizer: recover the optimizer's state after the training too, into a second file named after the first",
        ).choices(["optimizer"]),
      )
      .addOption(inputOption("--environment <policy>", shape.environment).default("report"))
      .addHelpText("after", help)
      .action(async (reference: string | undefined, choices: RecoverChoices, command: Command) =>
        withContext(command, (context) => recoverCommand(reference, choices, context)),
      );
  }
}

async function recoverCommand(
  reference: string | undefined,
  choices: RecoverChoices,
  context: CommandContext,
): Promise<void> {
  refuseMixed(reference, choices);
  const { file, form } = choices;
  if (file !== undefined && file !== "-" && (form === "safetensors" || form === "tfjs"))
    requireEndingOfForm(file, form);
  if (choices.merged) return recoverMerged(reference, choices, context);
  if (choices.explain) return explainCommand(reference, context);
  if (reference === undefined) {
    if (choices.at === undefined || choices.form === "tfjs")
      throw new StemmaError(
        "USAGE",
        "Name a model to recover, or a moment with --fleet F --at TIME to recover what a whole fleet ran (as safetensors).",
      );
    return recoverFleet({ ...choices, at: choices.at }, context);
  }
  return choices.form === "tfjs"
    ? recoverForTfjs(reference, choices, context)
    : recoverFile(reference, choices, context);
}

/** @throws USAGE for options that exclude each other */
function refuseMixed(reference: string | undefined, choices: RecoverChoices): void {
  const { merged, explain, at, layers, checkpoint } = choices;
  if (
    merged &&
    (explain ||
      ["tfjs", "original"].includes(choices.form) ||
      (at ?? layers ?? checkpoint ?? choices.with ?? choices.layout) !== undefined)
  )
    throw new StemmaError(
      "USAGE",
      "--merged goes only with --file, --environment and --force. Leave out the others.",
    );
  if (choices.layers !== undefined && (reference === undefined || choices.form === "tfjs"))
    throw new StemmaError(
      "USAGE",
      "--layers is for one model, as safetensors. Name the model, and leave out --at and --form.",
    );
  if (choices.layout !== undefined && (reference === undefined || choices.form === "tfjs"))
    throw new StemmaError(
      "USAGE",
      "--layout is for one model, as safetensors. Name the model, and leave out --at and --form.",
    );
  if (choices.checkpoint === undefined && choices.with === undefined) return;
  if (reference === undefined)
    throw new StemmaError(
      "USAGE",
      "--checkpoint and --with belong to one model. Name it, or leave them out to recover what a whole fleet ran.",
    );
  if (choices.checkpoint !== undefined && choices.with !== undefined)
    throw new StemmaError(
      "USAGE",
      "The optimizer's state is that of the end of the training and belongs to no checkpoint. Leave " +
        "out --checkpoint or --with.",
    );
  if (choices.with !== undefined && choices.file === "-")
    throw new StemmaError("USAGE", "--with writes a second file. Name a file with --file PATH, not a pipe.");
}

async function recoverFile(
  reference: string,
  choices: RecoverChoices,
  context: CommandContext,
): Promise<void> {
  const { file, form, force } = choices;
  if (file === "-") return recoverToPipe(reference, choices, context);
  const path = file === undefined ? undefined : resolve(file);
  const second = path === undefined ? undefined : optimizerPath(path);
  for (const each of choices.with === undefined ? [path] : [path, second])
    if (each !== undefined) await refuseExisting(each, force);
  const stream = await openModel(reference, choices, context);
  if (path !== undefined) await requireEnding(path, form, stream);
  const optimizer = await openOptimizer(choices, context, stream.expected);
  const report = await writeStream(context, reference, stream, { path, overwrite: force });
  printReport(context, report, path, await optimizer?.write(second));
}

/** @throws NOT_FOUND and others that `recover` throws */
async function openModel(
  reference: string,
  { form, layout, environment, checkpoint, layers, story }: RecoverChoices,
  { operations, options, signal }: CommandContext,
): Promise<RecoveryStream> {
  const { fleet } = options;
  const asked = { fleet, model: reference, environment, form, layout, checkpoint, layers };
  const opened = await operations();
  return opened.recover(story ? asked : { ...asked, story: "omit" }, { signal });
}

/** Compares the named file's ending with what the stream is, before anything is written. @throws USAGE */
async function requireEnding(path: string, form: RecoveryForm, stream: RecoveryStream): Promise<void> {
  try {
    const { file } = stream.expected;
    if (file !== undefined) requireEndingOfFile(path, file);
    else if (form === "auto") requireEndingOfForm(path, "safetensors");
  } catch (error) {
    await stream.chunks[Symbol.asyncIterator]().return?.();
    throw error;
  }
}

/** `soh.safetensors` gives `soh.optimizer.safetensors`. */
function optimizerPath(model: string): string {
  const extension = extname(model);
  return join(dirname(model), `${basename(model, extension)}.optimizer.safetensors`);
}

/** The second file of `--with optimizer`; opened first, so that nothing is written where there is none. */
interface OptimizerFile {
  write(path: string | undefined): Promise<RecoveredFile>;
}

interface RecoveredFile {
  readonly report: RecoveryReport;
  readonly path: string | undefined;
}

/** @throws MODEL_PART_MISSING */
async function openOptimizer(
  choices: RecoverChoices,
  context: CommandContext,
  { versionId }: RecoveryReport,
): Promise<OptimizerFile | undefined> {
  if (choices.with === undefined) return undefined;
  const stream = await (
    await context.operations()
  ).recover({
    fleet: context.options.fleet,
    // The id and not the name, which may point to a newer version by now.
    model: versionId,
    environment: choices.environment,
    part: choices.with,
  });
  return {
    write: async (path) => ({
      path,
      report: await writeStream(context, "the optimizer's state", stream, { path, overwrite: choices.force }),
    }),
  };
}

/** Writes the model to standard output, and the report to standard error. @throws USAGE on a terminal */
async function recoverToPipe(
  reference: string,
  choices: RecoverChoices,
  context: CommandContext,
): Promise<void> {
  if (process.stdout.isTTY)
    throw new StemmaError(
      "USAGE",
      "A model is binary and was not written to the terminal. Name a file with --file PATH, or pipe the output.",
    );
  const stream = await openModel(reference, choices, context);
  const report = await writeStreamTo(stream, process.stdout);
  context.output.info(describeRecovery(report, "standard output"));
}

/** Writes the weights first, so that a model.json never exists without its weights. */
async function recoverForTfjs(
  reference: string,
  choices: RecoverChoices,
  context: CommandContext,
): Promise<void> {
  const { file, folder, environment, checkpoint, force } = choices;
  const paths = tfjsPaths(file, folder);
  const second = optimizerPath(paths.json);
  for (const path of [...Object.values(paths), ...(choices.with === undefined ? [] : [second])])
    await refuseExisting(path, force);
  const { operations, options } = context;
  const opened = await operations();
  const stream = await opened.recover(
    { fleet: options.fleet, model: reference, environment, form: "tfjs", checkpoint },
    { signal: context.signal },
  );
  const optimizer = await openOptimizer(choices, context, stream.expected);
  const { versionId } = stream.expected;
  const json = await opened.modelJson({
    fleet: options.fleet,
    // The id and not the name, which may point to a newer version by now.
    model: versionId,
    weightsFile: basename(paths.weights),
  });
  const report = await writeStream(context, reference, stream, { path: paths.weights, overwrite: force });
  await writeDurably(nodeFiles(), paths.json, Buffer.from(modelJsonText(json)));
  printReport(context, report, paths.json, await optimizer?.write(second));
}

/** @throws USAGE where neither is given, or both */
function tfjsPaths(
  file: string | undefined,
  folder: string | undefined,
): { readonly json: string; readonly weights: string } {
  if ((file === undefined) === (folder === undefined))
    throw new StemmaError(
      "USAGE",
      "--form tfjs writes two files. Name their folder with --folder DIR, or the model.json with --file PATH.",
    );
  if (folder !== undefined)
    return { json: resolve(folder, tfjsNames.json), weights: resolve(folder, tfjsNames.weights) };
  const json = resolve(file ?? "");
  const stem = basename(json, ".json").replace(/[^\w.-]/g, "_");
  return { json, weights: join(dirname(json), `${stem}.weights.bin`) };
}

async function writeStream(
  { output }: CommandContext,
  reference: string,
  stream: RecoveryStream,
  { path, overwrite }: { readonly path: string | undefined; readonly overwrite: boolean },
): Promise<RecoveryReport> {
  const report = await writeStreamDurably(stream, path, { overwrite }, (bytes) => {
    output.progress(`recovering ${reference}: ${formatBytes(bytes)} of ${formatBytes(stream.byteLength)}`);
  });
  output.endProgress();
  return report;
}

function printReport(
  { output }: CommandContext,
  report: RecoveryReport,
  path: string | undefined,
  optimizer?: RecoveredFile,
): void {
  if (report.scheme !== undefined)
    output.info(
      `stemma: note: ${nameOf(report)} is a reduced model (${report.scheme}): these are its own numbers, bit for bit, and not those that were trained`,
    );
  output.print({
    data: {
      ...report,
      file: path ?? null,
      ...defined({ optimizer: optimizer && { ...optimizer.report, file: optimizer.path ?? null } }),
    },
    names: [report.versionId],
    text: [
      describeRecovery(report, path),
      ...(optimizer === undefined ? [] : [describeRecovery(optimizer.report, optimizer.path)]),
    ].join("\n"),
  });
}

function partText({ part, checkpoint }: RecoveryReport): string {
  if (part === "optimizer") return " (the optimizer's state)";
  return checkpoint === undefined ? "" : ` (after iteration ${checkpoint})`;
}

function describeRecovery(report: RecoveryReport, path: string | undefined): string {
  const { steps, environment } = report;
  const what =
    report.file === undefined
      ? `${report.tensors} ${report.partOf === undefined ? "" : `of ${report.partOf} `}tensors, `
      : `the very file ${report.file}, `;
  const differing = environment.differing.map(({ field }) => field).join(", ");
  return [
    `${nameOf(report)}${partText(report)} recovered exactly: ${what}${formatBytes(report.byteLength)}, ` +
      `root ${report.root.slice(0, 16)}`,
    `load ${formatDuration(steps.loadMs)}, rebuild ${formatDuration(steps.rebuildMs)}, environment ${formatDuration(steps.checkEnvironmentMs)}, verify ${formatDuration(steps.verifyMs)}`,
    ...layoutLines(report.layout),
    `environment: ${environment.verdict}${differing === "" ? "" : ` (${differing})`}`,
    path === undefined
      ? "nothing was written: name a file with --file PATH, or --file - to pipe the model"
      : `written to ${path}`,
  ].join("\n");
}

function layoutLines(layout: RecoveryReport["layout"]): readonly string[] {
  if (layout === undefined) return [];
  const { inexact } = layout;
  return [
    `in the layout of ${nameOf(layout)}`,
    ...(inexact === undefined
      ? []
      : [`not exact: ${inexact} numbers of biases, of which the file has two that are added`]),
  ];
}

export const commands = [addModelRecoverCommands];
