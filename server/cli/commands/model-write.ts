/** `stemma model import|train|tag|rm`: everything that adds to or changes a fleet's models. */
import { createReadStream } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import { basename } from "node:path";
import type { Command } from "commander";
import { StemmaError } from "../../../shared/errors.js";
import { maxChunkBytes } from "../../../shared/tensor/tensor.js";
import { withContext } from "../context.js";
import { appendValue, parseAssignments } from "../../../shared/cli/command-line.js";
import { formatBytes, formatDuration } from "../../../shared/cli/output.js";
import { nameOf } from "../version-text.js";

interface ImportChoices {
  readonly name: string;
  readonly base?: string;
  readonly arch?: string;
  readonly line?: string;
  readonly meta: string[];
  readonly attach: string[];
  readonly dryRun: boolean;
}
interface TrainChoices {
  readonly base?: string;
  readonly recipe: string;
  readonly data: string;
  readonly name: string;
  readonly set: string[];
  readonly seed?: string;
  readonly dryRun: boolean;
}

export function addModelWriteCommands(model: Command): void {
  model
    .command("import")
    .argument("<file>", "a .safetensors file")
    .requiredOption("--name <name>", "name of the model; every import under it is a new version")
    .option("--base <model>", "the model this one was trained from; only what changed is stored")
    .option("--arch <file>", "tfjs model.json: gives the tensors an architecture (else kind opaque)")
    .option("--line <line>", "the line it belongs to")
    .option("--meta <key=value>", "typed metadata that queries can use (repeatable)", appendValue, [])
    .option("--attach <file>", "a file kept with this version (repeatable)", appendValue, [])
    .option("--dry-run", "say what would be stored, store nothing", false)
    .description("save a model file of your own; its tensors come back byte for byte")
    .action(async (file: string, choices: ImportChoices, command: Command) =>
      withContext(command, async ({ output, operations, options }) => {
        const { size } = await statFile(file);
        const report = await (
          await operations()
        ).import(
          { byteLength: size, chunks: readChunks(file) },
          {
            fleet: options.fleet,
            name: choices.name,
            base: choices.base,
            line: choices.line,
            metadata: parseAssignments(choices.meta),
            dryRun: choices.dryRun,
            architecture: choices.arch === undefined ? undefined : await readText(choices.arch),
            attachments: await Promise.all(
              choices.attach.map(async (path) => ({ name: basename(path), bytes: await readBytes(path) })),
            ),
          },
        );
        const what = report.unchanged
          ? "equal to its base"
          : report.approach === "update"
            ? `${report.changed} of ${report.tensors} tensors changed`
            : `all ${report.tensors} tensors`;
        const stored = `${formatBytes(report.newTensorBytes)} of ${formatBytes(report.tensorBytes)} stored, plus ${formatBytes(report.overheadBytes)} of record`;
        if (report.summary === undefined) {
          output.print({
            data: report,
            names: [],
            text: `would be saved as ${report.approach}: ${what}; ${stored}`,
          });
          return;
        }
        const name = nameOf(report.summary);
        output.print({
          data: report,
          names: [name],
          text: `saved as ${name} (${report.summary.versionId.slice(0, 12)}), ${report.approach}: ${what}; ${stored}`,
        });
      }),
    );

  model
    .command("train")
    .requiredOption("--recipe <name>", "registered training procedure (see: stemma recipe list)")
    .requiredOption("--data <name>", "registered data (see: stemma data list)")
    .requiredOption("--name <name>", "name of the new model")
    .option("--base <model>", "train from this model; without it the recipe starts afresh")
    .option("--set <key=value>", "a parameter of the recipe (repeatable)", appendValue, [])
    .option("--seed <number>", "seed of every random stream; a fresh one is drawn and recorded when absent")
    .option("--dry-run", "check everything, train nothing", false)
    .description(
      "train a model on this machine with the engine that devices use, and save it with its lineage",
    )
    .action(async (choices: TrainChoices, command: Command) =>
      withContext(command, async ({ output, operations, options, signal }) => {
        const door = await operations();
        if (choices.dryRun) {
          const base =
            choices.base === undefined
              ? undefined
              : (await door.model({ fleet: options.fleet, model: choices.base })).versionId;
          const data = await door.checkDataset({ fleet: options.fleet, name: choices.data });
          output.print({
            data: { base: base ?? null, data },
            names: [],
            text: `would train ${choices.recipe} on ${choices.data} (${data.samples} samples) ${base === undefined ? "from scratch" : `from ${base.slice(0, 12)}`}`,
          });
          return;
        }
        const report = await door.train(
          {
            fleet: options.fleet,
            recipe: choices.recipe,
            data: choices.data,
            name: choices.name,
            base: choices.base,
            parameters: parseAssignments(choices.set),
            seed: choices.seed,
          },
          {
            onProgress: (progress) => {
              output.progress(progress.line, true);
            },
            signal,
          },
        );
        output.endProgress();
        const { metric } = report.result;
        output.print({
          data: report,
          names: [nameOf(report.summary)],
          text: `saved as ${nameOf(report.summary)} (${report.summary.versionId.slice(0, 12)}): ${metric.name} ${metric.before.toFixed(2)} ${metric.unit} → ${metric.after.toFixed(2)} ${metric.unit}, ${report.result.epochs} epochs in ${formatDuration(report.result.durationMs)}`,
        });
      }),
    );

  model
    .command("tag")
    .argument("<model>")
    .argument("<tag>")
    .option("--remove", "take the tag away", false)
    .option("--dry-run", "only check that the model exists", false)
    .description("let a tag point to a version: name:tag works wherever name:version does")
    .action(
      async (
        reference: string,
        tag: string,
        choices: { remove: boolean; dryRun: boolean },
        command: Command,
      ) =>
        withContext(command, async ({ output, operations, options }) => {
          const door = await operations();
          const summary = choices.dryRun
            ? await door.model({ fleet: options.fleet, model: reference })
            : await door.tag({ fleet: options.fleet, model: reference, tag, remove: choices.remove });
          output.print({
            data: summary,
            names: [nameOf(summary)],
            text: `${choices.dryRun ? "would be: " : ""}${summary.name}:${tag} ${choices.remove ? "points to nothing" : `is ${nameOf(summary)}`}`,
          });
        }),
    );

  model
    .command("rm")
    .argument("<model>")
    .option("--because <reason>", "kept with the fact", "removed by hand")
    .option("--dry-run", "say what would happen", false)
    .description(
      "retire a model: its name, parents and times stay; its tensors go with the next storage gc when nothing refers to them",
    )
    .action(async (reference: string, choices: { because: string; dryRun: boolean }, command: Command) =>
      withContext(command, async ({ output, operations, options }) => {
        const door = await operations();
        const before = await door.model({ fleet: options.fleet, model: reference });
        const note =
          before.derived.length > 0
            ? `; ${before.derived.length} models derived from it keep the tensors they share`
            : "";
        await door.retire({
          fleet: options.fleet,
          model: before.versionId,
          because: choices.because,
          dryRun: choices.dryRun,
        });
        output.print({
          data: { versionId: before.versionId, retired: !choices.dryRun },
          names: [nameOf(before)],
          text: `${choices.dryRun ? "would retire" : "retired"} ${nameOf(before)}${note}; free its space with: stemma storage gc`,
        });
      }),
    );
}

async function statFile(path: string): Promise<{ size: number }> {
  const found = await stat(path).catch((cause: unknown) => {
    throw missing(path, cause);
  });
  if (!found.isFile()) throw new StemmaError("USAGE", `${path} is not a file. Name one .safetensors file.`);
  return found;
}
async function readText(path: string): Promise<string> {
  return readFile(path, "utf8").catch((cause: unknown) => {
    throw missing(path, cause);
  });
}
async function readBytes(path: string): Promise<Uint8Array> {
  return readFile(path).catch((cause: unknown) => {
    throw missing(path, cause);
  });
}
function missing(path: string, cause: unknown): StemmaError {
  return new StemmaError("NOT_FOUND", `${path} cannot be read. Check the path and its permissions.`, {
    cause,
  });
}

async function* readChunks(path: string): AsyncIterable<Uint8Array> {
  for await (const chunk of createReadStream(path, {
    highWaterMark: Math.min(maxChunkBytes, 4 * 1024 * 1024),
  }))
    yield chunk as Uint8Array;
}
