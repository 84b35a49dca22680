/** `stemma replay engine approve|list|rm`: the engines that a server may run; and the other replay commands. */
import { stat } from "node:fs/promises";
import { StemmaError } from "../../../../shared/errors.js";
import { formatTime } from "../../../../shared/cli/output.js";
import { regularFiles } from "../../../../shared/files/regular-files.js";
import { isHash } from "../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import { listed, pathOf, plain } from "../../plain-command.js";
import { commands as programCommands } from "./replay-program.js";
import { commands as explainCommands } from "./replay-explain.js";
import { commands as jobCommands } from "./replay-jobs.js";
import { commands as rebaseCommands } from "./replay-rebase.js";
import { commands as runCommands } from "./replay-run.js";
import { commands as spotCheckCommands } from "./replay-spot-check.js";

const help = `
An engine is the code that trains; a version can only be replayed by the engine that
trained it. A server stores the engine of its own build with the first version that needs
it. Engines of other builds, such as those of devices that run another release, are
approved by a person: approving one means that this server runs its code. Devices never
send engines, and run only their own.

  stemma replay engine approve /opt/stemma-0.2/dist/engine --because "vans still run 0.2"
  stemma replay engine list
`;

const approve = plain("approveEngine", {
  name: "approve",
  about: "let this server run an engine: it is run once, and stored",
  takes: {
    path: {
      text: "<path> folder of an engine (dist/engine of a build), or a file with its archive",
      read: pathOf,
    },
  },
  options: {
    expected: { text: "refuse it unless it has this engine id", flags: "--expect <id>", read: hashOf },
    because: { text: "<text> kept with the fact", default: "" },
    dryRun: "only check it; its code is not run",
  },
  help,
  input: async ({ path }) => ({ archive: Buffer.from(await readArchive(path)).toString("base64") }),
  print: ({ engineId, engine, jobForm }, { dryRun }) => ({
    names: [engineId],
    text:
      `${dryRun ? "would approve" : "approved"} the engine ${engineId} ` +
      `(archive ${engine.slice(0, 12)}, jobs of form ${jobForm})`,
  }),
});

/** @throws FILE_MISSING, ENGINE_INVALID, SIZE_OVER_LIMIT */
async function readArchive(path: string): Promise<Uint8Array> {
  const { packEngine } = await import("../../../../shared/train/unpack-engine.js");
  const { maxEngineBytes } = await import("../../../../shared/train/engine-archive.js");
  const files = regularFiles();
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

const list = plain("engines", {
  name: "list",
  about: "engines that may be run here, where they came from, and how many versions need them",
  print: (engines) =>
    listed(engines, {
      nameOf: (row) => row.engineId,
      columns: [
        { title: "ENGINE", value: (row) => row.engineId.slice(0, 12) },
        { title: "ARCHIVE", value: (row) => row.engine.slice(0, 12) },
        { title: "SOURCE", value: (row) => row.source },
        { title: "SINCE", value: (row) => formatTime(row.atMs) },
        { title: "BY", value: (row) => row.by ?? "-" },
        { title: "VERSIONS", value: (row) => row.versions, align: "right" },
        { title: "STORED", value: (row) => (row.isStored ? "yes" : "no") },
      ],
      empty: "no engine is stored; the first training on this server stores its own",
    }),
});

const remove = plain("removeEngine", {
  name: "rm",
  about: "do not run an engine any more; refused while versions need it",
  takes: { engine: "<id> the engine's id, or at least 8 digits of it" },
  options: { because: { text: "<text> kept with the fact", default: "" } },
  print: (left, { engine }) => ({
    names: left.map((row) => row.engineId),
    text: `the engine ${engine.slice(0, 12)} is not run here any more; free its space with: stemma storage gc`,
  }),
});

export const commands = [
  ...runCommands,
  ...spotCheckCommands,
  ...jobCommands,
  ...explainCommands,
  ...rebaseCommands,
  ...programCommands,
  {
    name: "engine",
    about: "the training engines that this server may run",
    help,
    commands: [approve, list, remove],
  },
];
