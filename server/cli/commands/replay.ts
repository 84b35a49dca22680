/** `stemma replay engine approve|list|rm`: the engines that a server may run; and the other replay commands. */
import { stat } from "node:fs/promises";
import { resolve } from "node:path";
import type { Command } from "commander";
import { StemmaError } from "../../../shared/errors.js";
import { formatTime, type Column } from "../../../shared/cli/output.js";
import { nodeFiles } from "../../../shared/files/node-files.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import type { CallOutput } from "../../interface/api/server-operations.js";
import { withContext, type CommandContext } from "../context.js";
import { addReplayJobCommands } from "./replay-jobs.js";
import { addReplayRebaseCommand } from "./replay-rebase.js";
import { addReplayRunCommand } from "./replay-run.js";
import { isHash } from "../../../shared/tensor/hash.js";

const help = `
An engine is the code that trains; a version can only be replayed by the engine that
trained it. A server stores the engine of its own build with the first version that needs
it. Engines of other builds, such as those of devices that run another release, are
approved by a person: approving one means that this server runs its code. Devices never
send engines, and run only their own.

  stemma replay engine approve /opt/stemma-0.2/dist/engine --because "vans still run 0.2"
  stemma replay engine list
`;

interface ApproveChoices {
  readonly expect?: string;
  readonly because: string;
  readonly dryRun: boolean;
}

export function addReplayCommands(replay: Command): void {
  addReplayRunCommand(replay);
  addReplayJobCommands(replay);
  addReplayRebaseCommand(replay);
  const engine = replay
    .command("engine")
    .description("the training engines that this server may run")
    .addHelpText("after", help);
  engine
    .command("approve")
    .argument("<path>", "folder of an engine (dist/engine of a build), or a file with its archive")
    .option("--expect <id>", "refuse it unless it has this engine id")
    .option("--because <text>", "kept with the fact", "")
    .option("--dry-run", "only check it; its code is not run", false)
    .description("let this server run an engine: it is run once, and stored")
    .addHelpText("after", help)
    .action(async (path: string, choices: ApproveChoices, command: Command) =>
      withContext(command, (context) => approveCommand(path, choices, context)),
    );
  engine
    .command("list")
    .description("engines that may be run here, where they came from, and how many versions need them")
    .action(async (_: unknown, command: Command) => withContext(command, listCommand));
  engine
    .command("rm")
    .argument("<id>", "the engine's id, or at least 8 digits of it")
    .option("--because <text>", "kept with the fact", "")
    .description("do not run an engine any more; refused while versions need it")
    .action(async (id: string, { because }: { because: string }, command: Command) =>
      withContext(command, (context) => removeCommand(id, because, context)),
    );
}

async function approveCommand(
  path: string,
  { expect, because, dryRun }: ApproveChoices,
  { output, operations, options }: CommandContext,
): Promise<void> {
  const archive = await readArchive(resolve(path));
  const answer = await (
    await operations()
  ).approveEngine({
    fleet: options.fleet,
    archive: Buffer.from(archive).toString("base64"),
    ...(expect === undefined ? {} : { expected: hashOf(expect) }),
    because,
    dryRun,
  });
  output.print({
    data: answer,
    names: [answer.engineId],
    text:
      `${dryRun ? "would approve" : "approved"} the engine ${answer.engineId} ` +
      `(archive ${answer.engine.slice(0, 12)}, jobs of form ${answer.jobForm})`,
  });
}

/** @throws FILE_MISSING, ENGINE_INVALID, SIZE_OVER_LIMIT */
async function readArchive(path: string): Promise<Uint8Array> {
  const { packEngine } = await import("../../../shared/train/unpack-engine.js");
  const { maxEngineBytes } = await import("../../../shared/train/engine-archive.js");
  const files = nodeFiles();
  const found = await stat(path).catch(() => undefined);
  if (found?.isDirectory() === true) return await packEngine(files, path);
  if (found !== undefined && found.size > maxEngineBytes)
    throw new StemmaError(
      "SIZE_OVER_LIMIT",
      `${path} has ${found.size} bytes; an engine has at most ${maxEngineBytes}. Name the archive or ` +
        "the folder of an engine.",
      { path },
    );
  return await files.read(path);
}

/** @throws USAGE */
function hashOf(text: string): Hash {
  if (isHash(text)) return text;
  throw new StemmaError(
    "USAGE",
    `--expect ${text} is not an engine id. Give all of its 64 hexadecimal digits, as \`stemma model ` +
      `show\` and \`stemma replay engine list -o json\` print them.`,
  );
}

const engineColumns: readonly Column<CallOutput<"engines">[number]>[] = [
  { title: "ENGINE", value: (row) => row.engineId.slice(0, 12) },
  { title: "ARCHIVE", value: (row) => row.engine.slice(0, 12) },
  { title: "SOURCE", value: (row) => row.source },
  { title: "SINCE", value: (row) => formatTime(row.atMs) },
  { title: "BY", value: (row) => row.by ?? "-" },
  { title: "VERSIONS", value: (row) => row.versions, align: "right" },
  { title: "STORED", value: (row) => (row.isStored ? "yes" : "no") },
];

async function listCommand({ output, operations, options }: CommandContext): Promise<void> {
  const rows = await (await operations()).engines({ fleet: options.fleet });
  output.printRows(rows, {
    nameOf: (row) => row.engineId,
    columns: engineColumns,
    empty: "no engine is stored; the first training on this server stores its own",
  });
}

async function removeCommand(
  id: string,
  because: string,
  { output, operations, options }: CommandContext,
): Promise<void> {
  const left = await (await operations()).removeEngine({ fleet: options.fleet, engine: id, because });
  output.print({
    data: left,
    names: left.map((row) => row.engineId),
    text: `the engine ${id.slice(0, 12)} is not run here any more; free its space with: stemma storage gc`,
  });
}
