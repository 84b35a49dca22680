/** `stemma model import`: a model file becomes a version. */
import { createReadStream } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import { basename } from "node:path";
import type { Command } from "commander";
import { appendValue, parseAssignments } from "../../../shared/cli/command-line.js";
import { formatBytes } from "../../../shared/cli/output.js";
import { StemmaError } from "../../../shared/errors.js";
import { maxChunkBytes } from "../../../shared/tensor/tensor.js";
import type { ImportReport } from "../../api/version-schemas.js";
import { withContext, type CommandContext } from "../context.js";
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

export function addModelImportCommand(model: Command): void {
  model
    .command("import")
    .argument("<file>", "a .safetensors file")
    .requiredOption("--name <name>", "name of the model; every import under it is a new version")
    .option("--base <model>", "the model this one was trained from; only what changed is stored")
    .option("--arch <file>", "tfjs model.json: gives the tensors an architecture (else kind opaque)")
    .option("--line <line>", "the line it belongs to")
    .option("--meta <key=value>", "typed metadata that queries can use (repeatable)", appendValue, [])
    .option("--attach <file>", "a file kept with this version (repeatable)", appendValue, [])
    .option("--dry-run", "report what would be stored, store nothing", false)
    .description("save a model file of your own; its tensors come back byte for byte")
    .action(async (file: string, choices: ImportChoices, command: Command) =>
      withContext(command, (context) => importCommand(file, choices, context)),
    );
}

async function importCommand(
  file: string,
  { name, base, arch, line, meta, attach, dryRun }: ImportChoices,
  { output, operations, options }: CommandContext,
): Promise<void> {
  const { size } = await statFile(file);
  const report = await (
    await operations()
  ).import(
    { byteLength: size, chunks: readChunks(file) },
    {
      fleet: options.fleet,
      name,
      base,
      line,
      metadata: parseAssignments(meta),
      dryRun,
      architecture: arch === undefined ? undefined : await readText(arch),
      attachments: await Promise.all(
        attach.map(async (path) => ({ name: basename(path), bytes: await readBytes(path) })),
      ),
    },
  );
  const { summary } = report;
  output.print({
    data: report,
    names: summary === undefined ? [] : [nameOf(summary)],
    text:
      summary === undefined
        ? `would be saved as ${describeImport(report)}`
        : `saved as ${nameOf(summary)} (${summary.versionId.slice(0, 12)}), ${describeImport(report)}`,
  });
}

function describeImport(report: ImportReport): string {
  const { approach, unchanged, changed, tensors, newTensorBytes, tensorBytes, overheadBytes } = report;
  const extent = unchanged
    ? "equal to its base"
    : approach === "update"
      ? `${changed} of ${tensors} tensors changed`
      : `all ${tensors} tensors`;
  return `${approach}: ${extent}; ${formatBytes(newTensorBytes)} of ${formatBytes(tensorBytes)} stored, plus ${formatBytes(overheadBytes)} of record`;
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
