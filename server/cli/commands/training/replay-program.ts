/** `stemma replay program approve|list|rm`: the users' own programs that may be run again on this machine. */
import { isAbsolute, join } from "node:path";
import { stat } from "node:fs/promises";
import { currentUser } from "../../../../shared/adapters/current-user.js";
import { nodeClock } from "../../../../shared/adapters/node-ports.js";
import { formatTime } from "../../../../shared/cli/output.js";
import { isStemmaError, StemmaError } from "../../../../shared/errors.js";
import { nodeFiles } from "../../../../shared/files/node-files.js";
import { printable } from "../../../../shared/printable.js";
import { hashFile } from "../../../../shared/programs/hash-file.js";
import {
  decodeProgram,
  placeProgram,
  programAttachment,
  programId,
  type Program,
} from "../../../../shared/programs/program-bundle.js";
import { whoMayChange } from "../../../../shared/programs/who-may-change.js";
import { isHash, sha256 } from "../../../../shared/tensor/hash.js";
import type { Hash } from "../../../../shared/tensor/tensor.js";
import {
  readApprovedPrograms,
  writeApprovedPrograms,
  type ApprovedProgram,
} from "../../../learning/replay/approved-programs.js";
import { listed, pathOf, plain, type PlainContext } from "../../plain-command.js";
import { nameOf } from "../../version-text.js";

const help = `
A program is what an external trainer ran (trainer.exec), where its owner has it recorded
(trainer.record in agent.json). A replay runs one only if it was approved on this machine, by
the hash of all its files, with the parameters and samples that devices report. It runs as
the user of the server and may do what that user may: read its files first.

  stemma replay program approve pack-soh:3 --dry-run --to /tmp/program
  stemma replay program approve pack-soh:3 --expect HASH
  stemma replay program list
`;

const approve = plain(null, {
  name: "approve",
  about: "let replays on this machine run the program that made a version",
  takes: { model: "<model> a version that the program made" },
  options: {
    expect: { text: "<hash> refuse it unless the program has this hash", read: wholeHash },
    interpreter: { text: "<path> what runs it here; else found by its name", read: pathOf },
    because: { text: "<text> kept with the approval", default: "" },
    to: { text: "<folder> write its files there, to be read", read: pathOf },
    dryRun: "only show what would run",
  },
  help,
  run: async ({ model, expect, interpreter, because, to, dryRun }, context) => {
    const home = localHome(context);
    const bytes = await programOf(model, context);
    const program = decodeProgram(bytes);
    const id = programId(bytes);
    if (expect !== undefined && expect !== id) throw otherProgram(model, id, expect);
    const runs = await interpreterOf(program, interpreter);
    if (to !== undefined) await placeProgram(program, to, runs?.path ?? "");
    const approved: ApprovedProgram = {
      program: id,
      model: nameOf(await context.call("model", { model })),
      interpreter: runs ?? null,
      because,
      by: currentUser(),
      atMs: Math.round(nodeClock().now()),
    };
    if (dryRun !== true) {
      const files = nodeFiles();
      const others = (await readApprovedPrograms(files, home)).filter((each) => each.program !== id);
      await writeApprovedPrograms(files, home, [...others, approved]);
    }
    return { approved, program, isDry: dryRun === true };
  },
  print: ({ approved, program, isDry }, _, { output }) => ({
    data: { ...approved, approved: !isDry, ...shownProgram(program) },
    names: [approved.program],
    text: output.wrap(describeProgram(approved, program, isDry)),
  }),
});

const list = plain(null, {
  name: "list",
  about: "programs that replays on this machine may run",
  run: (_, context) => readApprovedPrograms(nodeFiles(), localHome(context)),
  print: (programs) =>
    listed(programs, {
      nameOf: (row) => row.program,
      columns: [
        { title: "PROGRAM", value: (row) => row.program.slice(0, 12) },
        { title: "MODEL", value: (row) => row.model },
        { title: "SINCE", value: (row) => formatTime(row.atMs) },
        { title: "BY", value: (row) => row.by },
        { title: "INTERPRETER", value: (row) => row.interpreter?.path ?? "-" },
      ],
      empty: "no program is approved on this machine, so replays run none",
    }),
});

const remove = plain(null, {
  name: "rm",
  about: "do not run a program any more",
  takes: { program: "<hash> the program's hash, or at least 8 digits of it" },
  run: async ({ program }, context) => {
    const [files, home] = [nodeFiles(), localHome(context)];
    const programs = await readApprovedPrograms(files, home);
    const found = programs.filter((each) => program.length >= 8 && each.program.startsWith(program));
    if (found.length !== 1)
      throw new StemmaError(
        "NOT_FOUND",
        `${found.length} approved programs have a hash that begins with ${JSON.stringify(program.slice(0, 80))}. ` +
          "`stemma replay program list` shows them; give 8 digits or more.",
      );
    const left = programs.filter((each) => !found.includes(each));
    await writeApprovedPrograms(files, home, left);
    return { left, program: found[0]?.program ?? "" };
  },
  print: ({ left, program }) => ({
    data: left,
    names: left.map((row) => row.program),
    text: `the program ${program.slice(0, 12)} is not run here any more`,
  }),
});

export const commands = [
  {
    name: "program",
    about: "users' own programs that replays here may run",
    help,
    commands: [approve, list, remove],
  },
];

/** An approval is a file of this machine's home, whatever server has the models. @throws USAGE */
function localHome({ options }: PlainContext): string {
  if (options.server === undefined) return options.home;
  throw new StemmaError(
    "USAGE",
    "Programs are approved on the machine that runs them: use this command there, without --server or a context.",
  );
}

/** @throws MODEL_NOT_FOUND; MODEL_PART_MISSING where no recorded program made the version */
async function programOf(model: string, { call }: PlainContext): Promise<Uint8Array> {
  try {
    const { base64 } = await call("attachment", { model, file: programAttachment });
    return new Uint8Array(Buffer.from(base64, "base64"));
  } catch (cause) {
    if (!isStemmaError(cause, "MODEL_PART_MISSING")) throw cause;
    throw new StemmaError(
      "MODEL_PART_MISSING",
      `${model} has no recorded program: no external trainer made it, or the owner of its device does not have that ` +
        "recorded (trainer.record in agent.json). Name a version that one made.",
      { cause },
    );
  }
}

function otherProgram(model: string, id: Hash, expected: Hash): StemmaError {
  return new StemmaError(
    "CHECK_FAILED",
    `${model} was made by the program ${id}, not by ${expected.slice(0, 12)}. Nothing was approved. ` +
      "Show what would run with --dry-run.",
    { expected, actual: id },
  );
}

/** @throws USAGE */
function wholeHash(text: string): Hash {
  if (isHash(text)) return text;
  throw new StemmaError("USAGE", `--expect ${text} is not a hash. Give all of its 64 hexadecimal digits.`);
}

const searched = ["/usr/local/bin", "/usr/bin", "/bin"];

/** @returns undefined where the program is an executable of its own. @throws USAGE, CONFIG_INVALID */
async function interpreterOf(
  { exec: [first] }: Program,
  named: string | undefined,
): Promise<ApprovedProgram["interpreter"] | undefined> {
  if (first === undefined || !("interpreter" in first)) {
    if (named === undefined) return undefined;
    throw new StemmaError("USAGE", "The program is an executable of its own. Leave --interpreter out.");
  }
  const places = named === undefined ? searched.map((folder) => join(folder, first.interpreter)) : [named];
  for (const path of places) {
    const found = isAbsolute(path) ? await stat(path).catch(() => undefined) : undefined;
    if (found?.isFile() !== true || (found.mode & 0o111) === 0) continue;
    const problem = await whoMayChange(path, process.getuid?.());
    if (problem !== undefined)
      throw new StemmaError(
        "CONFIG_INVALID",
        `${problem.path} ${problem.text}, so others could change what runs. Name another one with --interpreter.`,
      );
    return { path, sha256: (await hashFile(path)) as Hash };
  }
  throw new StemmaError(
    "USAGE",
    `Its interpreter ${printable(first.interpreter)} was not found: ${places.join(", ")}. Name it with --interpreter PATH.`,
  );
}

interface ShownFile {
  readonly path: string;
  readonly byteLength: number;
  readonly sha256: string;
}

function shownProgram({ exec, files, lock, variables, withheld, recordsRandomness = false }: Program) {
  return {
    exec,
    files: files.map(({ path, bytes }): ShownFile => ({
      path,
      byteLength: bytes.length,
      sha256: sha256(bytes),
    })),
    lock: lock === undefined ? null : (files[lock]?.path ?? null),
    variables,
    withheld,
    recordsRandomness,
  };
}

/** Everything that decides what runs, made printable: it comes from a device. */
function describeProgram(
  { program: id, interpreter }: ApprovedProgram,
  program: Program,
  isDry: boolean,
): string[] {
  const { files, lock, variables, withheld, recordsRandomness } = shownProgram(program);
  const command = program.exec.map((argument) =>
    "text" in argument
      ? JSON.stringify(argument.text)
      : "file" in argument
        ? `FILE:${program.files[argument.file]?.path ?? ""}`
        : (interpreter?.path ?? ""),
  );
  return [
    `${isDry ? "would approve" : "approved"} the program`,
    `  ${id}`,
    `  runs: ${command.join(" ")}`,
    ...(interpreter === null
      ? []
      : [`  interpreter: ${interpreter.sha256.slice(0, 16)} ${interpreter.path}`]),
    ...files.map((file) => `  file: ${file.sha256.slice(0, 16)} ${file.byteLength} bytes ${file.path}`),
    ...(lock === null ? [] : [`  its libraries should be those of: ${lock}`]),
    ...Object.entries(variables).map(([name, text]) => `  variable: ${name}=${JSON.stringify(text)}`),
    ...(withheld.length === 0 ? [] : [`  variables that stayed on the device: ${withheld.join(", ")}`]),
    ...(recordsRandomness ? ["  with the recorder, which gives it what it drew on its device"] : []),
    "as the user of this server, with what devices report of parameters and samples",
  ].map(printable);
}
