/** `stemma nas run|show|space`: search for architectures whose candidates inherit layers from each other. */
import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { join, resolve } from "node:path";
import { InvalidArgumentError, Option, type Command } from "commander";
import type { Output } from "../../../../shared/cli/output.js";
import { defined } from "../../../../shared/defined.js";
import { isStemmaError, StemmaError } from "../../../../shared/errors.js";
import { nodeClock, nodeRandom } from "../../../../shared/adapters/node-ports.js";
import { regularFiles } from "../../../../shared/files/regular-files.js";
import { noSuchData } from "../../../../shared/missing-errors.js";
import type { Files } from "../../../../shared/ports.js";
import type { DatasetReference } from "../../../../shared/train/training.js";
import type { ServerOperations } from "../../../interface/api/server-operations.js";
import { referenceOf } from "../../../services/context/named-data.js";
import type { CandidateTrainer } from "../../../learning/nas/candidate.js";
import { defaultJudgeShare } from "../../../learning/nas/judge.js";
import { runSearch, searchState } from "../../../learning/nas/run-search.js";
import { storeInFleet } from "../../../learning/nas/search-store.js";
import {
  forgetSearch,
  holdSearch,
  keepSettings,
  leasePath,
  missingFolders,
  removeMade,
  removeWorkers,
  readSettings,
  SearchLog,
  settingsPath,
} from "../../../learning/nas/search-log.js";
import { candidatesIn, readSearchSpace } from "../../../learning/nas/search-space.js";
import { exampleSpace } from "../../../learning/nas/example-space.js";
import { checkSettings, type KeptSettings } from "../../../learning/nas/settings.js";
import { trainerHere } from "../../../learning/nas/train-here.js";
import { sourceWeightsText } from "../../../interface/api/models/nearest-schemas.js";
import { withContext, type CommandContext } from "../../context.js";
import { readJson } from "../../read-json.js";
import { columnsOf, describeEnd, describeEvent, endedRowsOf, rowsOf, type SearchRow } from "./nas-rows.js";
import { counted } from "../../../../shared/printable.js";

interface RunChoices {
  readonly folder: string;
  readonly data?: string;
  readonly name?: string;
  readonly space?: string;
  readonly candidates?: number;
  readonly population?: number;
  readonly sample?: number;
  readonly drop?: "oldest" | "worst";
  readonly seed?: string;
  readonly epochs?: number;
  readonly batchSize?: number;
  readonly learningRate?: number;
  readonly random?: boolean;
  readonly transfer: boolean;
  readonly keepAll?: boolean;
  readonly rank?: string;
  readonly judgeAfter?: number;
  readonly judgeShare?: number;
  readonly workers?: number;
  /** Selection of devices. */
  readonly on?: string;
  readonly line: string;
  readonly patience: number;
}

const help = `
Each candidate takes over the first layers that it has in common with a model of the
fleet, trains the others, and stores only what is new. What leaves the population is
retired; stemma storage gc frees it. Ctrl-C at any time: stemma nas run FOLDER goes on.

Examples:
  stemma nas space > space.json
  stemma data add digits - --kind images-generated --set count=2000
  stemma nas run search-1 --data digits --candidates 40
  stemma nas run search-1                      (goes on, with the settings it had)
  stemma nas run search-1 --candidates 80      (makes it longer)
  stemma nas show search-1
  stemma nas run search-2 --data digits --on 'label.bench=yes'   (devices train)

docs/architecture-search.md describes the search and the file of a space.
`;

const whole =
  (low: number, high: number) =>
  (text: string): number => {
    const value = Number(text);
    if (!Number.isInteger(value) || value < low || value > high)
      throw new InvalidArgumentError(`It is a whole number from ${low} to ${high}.`);
    return value;
  };

const rankHelp =
  "weights by which candidates choose whom to inherit from: prefix=1,quality=0.5,age=0.1 (the longest prefix, " +
  "then the highest quality, then the newest)";

function shareOf(text: string): number {
  const share = Number(text);
  if (share > 0 && share <= 1) return share;
  throw new InvalidArgumentError("It is a number above 0, at most 1.");
}

function rankText(text: string): string {
  if (sourceWeightsText.test(text)) return text;
  throw new InvalidArgumentError("Write weights such as prefix=1,quality=0.5,age=0.1.");
}

function addRunCommand(run: Command): void {
  run
    .argument("<folder>", "folder of the search: its settings and its log")
    .option("--data <name>", "registered data of images and classes (see: stemma data list)")
    .option("--name <name>", "name of the models; each candidate is a version of it (nas)")
    .option(
      "--space <file>",
      "the space to search, as JSON; without it the one that `stemma nas space` prints",
    )
    .option(
      "--candidates <n>",
      "how many candidates are made in total (as many as before; 50)",
      whole(1, 100_000),
    )
    .option("--population <n>", "members of the population (10)", whole(1, 10_000))
    .option("--sample <n>", "members of which the best is changed (4)", whole(1, 10_000))
    .addOption(
      new Option("--drop <which>", "which member leaves a full population (oldest)").choices([
        "oldest",
        "worst",
      ]),
    )
    .option("--seed <number>", "seed of every choice and of every training; without it one is drawn and kept")
    .option("--epochs <n>", "passes over the samples for each candidate (1)", whole(1, 1000))
    .option("--batch-size <n>", "samples per step (32)", whole(1, 4096))
    .option("--learning-rate <rate>", "learning rate (0.003)", Number)
    .option("--random", "random candidates instead of evolution, to compare with")
    .option("--no-transfer", "train every candidate from scratch, to compare with")
    .option("--keep-all", "retire nothing")
    .option("--rank <weights>", rankHelp, rankText)
    .option(
      "--judge-after <steps>",
      "end candidates early whose loss is bad after so many steps (none)",
      whole(1, 1_000_000),
    )
    .option(
      "--judge-share <share>",
      "with --judge-after: bad is a loss that at least this share of the candidates before undercut (0.5)",
      shareOf,
    )
    .option(
      "--workers <n>",
      "candidates that this machine trains at the same time (1; with --on none)",
      whole(0, 64),
    )
    .option("--on <selection>", "train on the connected devices that this means (docs/selections.md)")
    .option("--line <line>", "with --on: the devices' line, whose name begins with search", "search")
    .option("--patience <minutes>", "with --on: how long a device may take", whole(1, 600), 30)
    .description("search for a good architecture; goes on where it was stopped or killed")
    .addHelpText("after", help)
    .action(async (folder: string, choices: Omit<RunChoices, "folder">, command: Command) =>
      withContext(command, (context) => runCommand({ folder: resolve(folder), ...choices }, context)),
    );
}

function addNasCommands(nas: Command): void {
  addRunCommand(nas.command("run"));
  nas
    .command("show")
    .argument("<folder>", "folder of the search")
    .option("--limit <n>", "the best so many", whole(1, 100_000), 20)
    .description("what a search found so far, the best first")
    .action(async (folder: string, { limit }: { readonly limit: number }, command: Command) =>
      withContext(command, (context) => showCommand({ folder: resolve(folder), limit }, context)),
    );
  nas
    .command("space")
    .description("print the built-in space, as an example to change")
    .action(async (_: unknown, command: Command) =>
      withContext(command, ({ output }) => {
        output.print({
          data: exampleSpace,
          names: [],
          text: JSON.stringify(exampleSpace, null, 2),
          isVerbatim: true,
        });
        return Promise.resolve();
      }),
    );
}

type AskedSettings = KeptSettings & { readonly candidates: number };

/** The settings of a new search, or of the one in the folder with what is asked now. @throws USAGE */
async function settingsFor(files: Files, choices: RunChoices, fleet: string): Promise<AskedSettings> {
  const path = settingsPath(choices.folder);
  const kept =
    (await files.stat(path)) === undefined
      ? undefined
      : checkSettings(await readSettings(files, choices.folder), path);
  const data = choices.data ?? kept?.data;
  if (data === undefined)
    throw new StemmaError(
      "USAGE",
      "Name the data with --data NAME; `stemma data list` shows what is registered.",
    );
  return {
    format: 1,
    fleet,
    name: choices.name ?? kept?.name ?? "nas",
    data,
    space:
      choices.space === undefined
        ? (kept?.space ?? exampleSpace)
        : readSearchSpace(await readJson(choices.space), choices.space),
    strategy: choices.random === true ? "random" : (kept?.strategy ?? "evolution"),
    population: choices.population ?? kept?.population ?? 10,
    sample: choices.sample ?? kept?.sample ?? 4,
    drop: choices.drop ?? kept?.drop ?? "oldest",
    seed: choices.seed ?? kept?.seed ?? String(randomBytes(4).readUInt32LE()),
    epochs: choices.epochs ?? kept?.epochs ?? 1,
    batchSize: choices.batchSize ?? kept?.batchSize ?? 32,
    learningRate: choices.learningRate ?? kept?.learningRate ?? 0.003,
    transfer: choices.transfer && (kept?.transfer ?? true),
    keepAll: choices.keepAll ?? kept?.keepAll ?? false,
    candidates: choices.candidates ?? kept?.candidates ?? 50,
    ...defined({ rank: choices.rank ?? kept?.rank }),
    ...judgingOf(choices, kept),
  };
}

/** @throws USAGE for what cannot be judged */
function judgingOf(
  { judgeAfter, judgeShare, on }: RunChoices,
  kept: KeptSettings | undefined,
): Pick<KeptSettings, "judgeAfter" | "judgeShare"> {
  const after = judgeAfter ?? kept?.judgeAfter;
  if (after === undefined) {
    if (judgeShare === undefined) return {};
    throw new StemmaError("USAGE", "--judge-share goes with --judge-after STEPS. Add it, or leave it out.");
  }
  if (on !== undefined)
    throw new StemmaError(
      "USAGE",
      "Devices do not tell the losses of single steps, so their candidates cannot be judged early. Leave out --on, " +
        "or begin a search in another folder without --judge-after.",
    );
  return { judgeAfter: after, judgeShare: judgeShare ?? kept?.judgeShare ?? defaultJudgeShare };
}

/** Runs a search; one that is refused, or fails before a candidate was made, leaves nothing. */
async function runCommand(choices: RunChoices, context: CommandContext): Promise<void> {
  const files = regularFiles();
  const { folder } = choices;
  const made = await missingFolders(files, folder);
  const giveBack = await holdSearch(folder);
  let isForgotten = false;
  try {
    const isNew = (await files.stat(settingsPath(folder))) === undefined;
    try {
      await removeWorkers(files, folder);
      await search(files, choices, await settingsFor(files, choices, context.options.fleet), context);
    } catch (error) {
      const isStopped = isStemmaError(error, "TRAINING_STOPPED");
      isForgotten =
        isNew && !isStopped && searchState((await SearchLog.open(files, folder)).events).finished === 0;
      if (isForgotten) await forgetSearch(files, folder);
      throw error;
    }
  } finally {
    await giveBack();
    if (isForgotten) await removeMade(files, made);
  }
}

async function search(
  files: Files,
  choices: RunChoices,
  settings: AskedSettings,
  { output, operations, signal }: CommandContext,
): Promise<void> {
  const opened = await operations();
  const dataset = await datasetOf(opened, settings);
  const working = await trainersFor(choices, { ...settings, dataset }, { output, operations: opened });
  try {
    await keepSettings(files, choices.folder, settings);
    const log = await SearchLog.open(files, choices.folder);
    const known = searchState(log.events).finished;
    output.info(
      `searching ${candidatesIn(settings.space).toLocaleString("en")} architectures, seed ${settings.seed}` +
        (known === 0 ? "" : `; ${known} of ${counted(settings.candidates, "candidate")} made already`),
    );
    const state = await runSearch(settings, {
      store: storeInFleet(opened, {
        ...settings,
        ...(choices.on === undefined ? {} : { minutes: leaseMinutes(choices.patience) }),
      }),
      log,
      files,
      clock: nodeClock(),
      workFolder: (candidate) => join(choices.folder, `work-${candidate}`),
      trainers: working.trainers,
      signal,
      onEvent: (event) => {
        const line = describeEvent(event, settings.candidates);
        if (line !== undefined) output.progress(line, true);
      },
      onLost: ({ message }) => {
        output.info(`stemma: ${message}`);
      },
    }).catch((error: unknown) => {
      throw isStemmaError(error, "TRAINING_STOPPED") ? stopped(error, choices, { log, settings }) : error;
    });
    output.endProgress();
    const rows = rowsOf(state);
    output.print({
      data: {
        ...settings,
        candidates: rows,
        ...(settings.judgeAfter === undefined ? {} : { ended: endedRowsOf(state) }),
      },
      names: rows.slice(0, 1).map((row) => row.model),
      text: describeEnd(rows, state, settings),
    });
  } finally {
    await working.close();
  }
}

function stopped(
  cause: StemmaError,
  { on, folder }: RunChoices,
  { log, settings }: { readonly log: SearchLog; readonly settings: AskedSettings },
): StemmaError {
  return new StemmaError(
    "TRAINING_STOPPED",
    `The search was stopped after ${searchState(log.events).finished} of ${counted(settings.candidates, "candidate")}; ` +
      "nothing that was made is lost. Go on with: " +
      `stemma nas run ${folder}${on === undefined ? "" : ` --on '${on}'`}`,
    { cause },
  );
}

/** Minutes that a candidate's lease lasts: a device may take its patience twice, for its start and for the training. */
const leaseMinutes = (patience: number): number => Math.max(60, 2 * patience + 30);

interface Trainers {
  readonly trainers: readonly CandidateTrainer[];
  close(): Promise<void>;
}

/** @throws USAGE, SEARCH_WORKER_LOST */
async function trainersFor(
  { folder, workers, on, line, patience }: RunChoices,
  { fleet, name, data, dataset }: KeptSettings & { readonly dataset: DatasetReference },
  { output, operations }: { readonly output: Output; readonly operations: ServerOperations },
): Promise<Trainers> {
  const count = workers ?? (on === undefined ? 1 : 0);
  if (count === 0 && on === undefined)
    throw new StemmaError(
      "USAGE",
      "With --workers 0 nobody trains. Name devices with --on, or leave --workers out.",
    );
  const here = Array.from({ length: count }, (_, number) =>
    trainerHere({
      files: regularFiles(),
      dataset,
      threads: 1,
      workerFolder: join(folder, `worker-${number}`),
    }),
  );
  if (on === undefined) return { trainers: here, close: () => Promise.resolve() };
  const { devicesOfSearch } = await import("../../../learning/nas/search-devices.js");
  const devices = await devicesOfSearch(operations, {
    fleet,
    name,
    data,
    select: on,
    line,
    patienceMs: patience * 60_000,
    clock: nodeClock(),
    random: nodeRandom(),
    holder: `the search of ${name} in ${folder} on ${hostname()}`.slice(0, 200),
    kept: { files: regularFiles(), path: leasePath(folder) },
  });
  output.info(
    `training on ${devices.trainers.map(({ device }) => device).join(", ")}` +
      devices.others.map(({ device, why }) => `; ${device} does not: ${why}`).join(""),
  );
  return { trainers: [...here, ...devices.trainers], close: () => devices.close() };
}

async function datasetOf(
  operations: ServerOperations,
  { fleet, data }: KeptSettings,
): Promise<ReturnType<typeof referenceOf>> {
  const found = (await operations.datasets({ fleet })).find(({ name }) => name === data);
  if (found !== undefined) return referenceOf(found);
  throw noSuchData(fleet, data);
}

async function showCommand(
  { folder, limit }: { readonly folder: string; readonly limit: number },
  { output }: CommandContext,
): Promise<void> {
  const files = regularFiles();
  checkSettings(await readSettings(files, folder), settingsPath(folder));
  const state = searchState((await SearchLog.open(files, folder)).events);
  const made = rowsOf(state);
  const rows: readonly SearchRow[] = [...made, ...endedRowsOf(state)].slice(0, limit);
  output.print({
    data: rows,
    names: made.slice(0, limit).map(({ model }) => model),
    table: {
      rows,
      columns: columnsOf(made),
      empty: `no candidate was made yet; go on with: stemma nas run ${folder}`,
    },
  });
}

export const commands = [addNasCommands];
