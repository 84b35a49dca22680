/** `stemma recipe init|check|run|approve|revoke` and `recipe list --own`: a fleet's own recipes. */
import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { nodeClock } from "../../../../shared/adapters/node-ports.js";
import { parseAssignments } from "../../../../shared/cli/command-line.js";
import { formatDuration, formatTime } from "../../../../shared/cli/output.js";
import { counted } from "../../../../shared/printable.js";
import { defined } from "../../../../shared/defined.js";
import { StemmaError } from "../../../../shared/errors.js";
import { requireRegular } from "../../../../shared/files/not-regular.js";
import { isHash } from "../../../../shared/tensor/hash.js";
import { bundleId, maxBundleBytes } from "../../../../shared/train/own-recipes/bundle.js";
import type { DatasetReference } from "../../../../shared/train/training.js";
import type { CallOutput } from "../../../interface/api/server-operations.js";
import { maxMinutes } from "../../../interface/api/models/replay-schemas.js";
import { recipeConfinementOf, trainingLimitsOf } from "../../../operations/configuration/config-file.js";
import type { RecipeTrial, TrialResult } from "../../../learning/training/check-recipe.js";
import { readBy } from "../../input-option.js";
import {
  listed,
  plain,
  repeated,
  type Choices,
  type PlainContext,
  type Printed,
} from "../../plain-command.js";

const help = `
A recipe of one's own is one file, an ES module that imports nothing but stemma:recipe:

  stemma recipe init my-recipe           # a recipe that trains as it is
  stemma recipe check my-recipe          # is its training exact?
  stemma recipe approve my-recipe        # let this fleet's server run it
  stemma model train --recipe my-recipe --data DATA --name MODEL

Approving one means that the server runs its code, in a confined process.
docs/recipes-of-your-own.md has the whole path.
`;

const pathText = "<path> the recipe's file, or the folder that recipe.mjs is in";
const trialOptions = {
  reader: "<name> how data are read (see: stemma data add --help); default: a generator's",
  location: "<path> folder or file of the data",
  read: repeated("<key=value> a parameter of the reader (repeatable)"),
  set: repeated("<key=value> a parameter of the recipe (repeatable)"),
  seed: { text: "<number> seed of every random stream", default: "1" },
  maxMinutes: {
    text: `<n> ${maxMinutes.description ?? ""}`,
    read: readBy("--max-minutes", maxMinutes),
  },
} as const;
type TrialChoices = Choices<unknown, unknown, typeof trialOptions>;

const init = plain(null, {
  name: "init",
  about: "write a recipe that trains as it is, to be changed",
  takes: { folder: "a new folder, or an empty one" },
  help,
  run: async ({ folder }) => {
    const { scaffold, scaffoldFile } = await import("../../../../shared/train/own-recipes/scaffold.js");
    const file = join(resolve(folder), scaffoldFile);
    await mkdir(resolve(folder), { recursive: true });
    try {
      await writeFile(file, scaffold, { flag: "wx" });
    } catch (cause) {
      if ((cause as { code?: string }).code !== "EEXIST") throw cause;
      throw new StemmaError("USAGE", `${file} exists, and would be lost. Name another folder.`, { cause });
    }
    return { file, shown: join(folder, scaffoldFile) };
  },
  print: ({ file, shown }, { folder }) => ({
    data: { file },
    names: [file],
    text: `wrote ${shown}; see whether its training is exact: stemma recipe check ${folder}`,
  }),
});

/** @throws FILE_MISSING, SIZE_OVER_LIMIT */
async function readBundle(path: string): Promise<Uint8Array> {
  const { scaffoldFile } = await import("../../../../shared/train/own-recipes/scaffold.js");
  const found = await stat(resolve(path)).catch(() => undefined);
  const file = found?.isDirectory() === true ? join(resolve(path), scaffoldFile) : resolve(path);
  const target = await stat(file).catch(() => undefined);
  if (target === undefined)
    throw new StemmaError("FILE_MISSING", `There is no recipe at ${file}. Name its file, or its folder.`, {
      path: file,
    });
  requireRegular(target, file);
  if (target.size > maxBundleBytes)
    throw new StemmaError(
      "SIZE_OVER_LIMIT",
      `${file} has ${target.size} bytes; a recipe has at most ${maxBundleBytes}. Leave out what it does not need.`,
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
  { options, output, signal }: PlainContext,
  body: (trial: RecipeTrial) => Promise<T>,
): Promise<T> {
  const bundle = await readBundle(path);
  const { costLimitsOf } = await import("../../../learning/training/bounded-cost.js");
  const { costText } = await import("../../../learning/training/training-cost.js");
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

const check = plain(null, {
  name: "check",
  about: "train twice, in two processes with other numbers of threads, and compare every tensor",
  takes: { path: pathText },
  options: trialOptions,
  help,
  run: async ({ path, ...choices }, context) => {
    const { checkRecipe } = await import("../../../learning/training/check-recipe.js");
    return await withTrial(path, choices, context, checkRecipe);
  },
  print: (checked) => {
    const { recipe, tensors, threads, dataset } = checked;
    const { id, name, version } = recipe;
    return {
      data: { recipe: id, name, version, tensors, threads, dataset, exact: true },
      names: [id],
      text:
        `exact: two trainings on ${dataset.reader}, with ${threads.join(" and ")} threads, gave the same ${tensors} ` +
        `tensors\n${described(checked)}\nits hash is ${id}`,
    };
  },
});

const run = plain(null, {
  name: "run",
  about: "train once and print the result; nothing is saved in a fleet",
  takes: { path: pathText },
  options: { ...trialOptions, to: "<folder> keep the model here" },
  run: async ({ path, to, ...choices }, context) => {
    const { tryRecipe } = await import("../../../learning/training/check-recipe.js");
    return await withTrial(path, choices, context, async (trial) => {
      const tried = await tryRecipe(trial);
      if (to !== undefined) await keep(tried, resolve(to));
      return tried;
    });
  },
  print: (result, { to }) => {
    const { metric, epochs } = result.outcome.result;
    const { id, name } = result.recipe;
    return {
      data: { recipe: id, name, metric, epochs, to },
      names: [id],
      text: `${described(result)}${to === undefined ? "" : `\nkept in ${to}`}`,
    };
  },
});

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
  return `${recipe.name} ${recipe.version}: ${measured}, ${counted(result.epochs, "epoch")} in ${formatDuration(result.durationMs)}`;
}

const approve = plain("approveRecipe", {
  name: "approve",
  about: "let this fleet's server run a recipe, named by its hash",
  takes: { path: pathText },
  options: {
    expect: "<hash> refuse it unless it has this hash, which somebody looked at",
    because: { text: "<text> kept with the fact", default: "" },
    dryRun: "only check it",
  },
  help,
  input: async ({ path, expect }) => {
    const bundle = await readBundle(path);
    if (expect !== undefined && !isHash(expect))
      throw new StemmaError(
        "USAGE",
        `--expect ${expect} is not a hash. Give all 64 hexadecimal digits, as stemma recipe check prints them; ` +
          `${path} has ${bundleId(bundle)}.`,
      );
    return {
      bundle: Buffer.from(bundle).toString("base64"),
      ...defined({ expected: expect }),
    };
  },
  print: ({ recipe, name, version }, { dryRun }) => ({
    names: [recipe],
    text: `${dryRun ? "would approve" : "approved"} ${name} ${version} (${recipe})`,
  }),
});

const revoke = plain("revokeRecipe", {
  name: "revoke",
  about: "do not run a recipe any more; what it trained stays",
  takes: { recipe: "its name, its hash, or at least 8 digits of that" },
  options: { because: { text: "<text> kept with the fact", default: "" } },
  print: (_, { recipe }) => ({ names: [recipe], text: `nothing runs the recipe ${recipe} any more` }),
});

/** The fleet's own recipes. */
export function describeOwn(rows: CallOutput<"recipes">): Printed {
  return listed(rows, {
    nameOf: (row) => row.recipe,
    columns: [
      { title: "RECIPE", value: (row) => row.name },
      { title: "VERSION", value: (row) => row.version },
      { title: "HASH", value: (row) => row.recipe.slice(0, 12) },
      { title: "SINCE", value: (row) => formatTime(row.atMs) },
      { title: "BY", value: (row) => row.by ?? "-" },
      { title: "VERSIONS", value: (row) => row.versions, align: "right" },
      { title: "DEVICES", value: (row) => row.devices, align: "right" },
      { title: "MAY RUN", value: (row) => (row.revoked === undefined ? "yes" : "no: revoked") },
    ],
    empty: "no recipe of this fleet's own was approved; begin one with: stemma recipe init FOLDER",
  });
}

export const commands = [init, check, run, approve, revoke];
