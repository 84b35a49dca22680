/** `stemma reproduce`: runs of a training compared, recorded, replayed and remedied (CH §3; CH1). */
import { describeComparison } from "../../../../shared/determinism/reproduce/criteria-text.js";
import type { RunComparison } from "../../../../shared/determinism/reproduce/criteria.js";
import {
  defaultSeeds,
  setupNames,
  setups,
  type Setup,
} from "../../../../shared/determinism/reproduce/study.js";
import { exitStatus } from "../../../../shared/errors.js";
import { InvalidArgumentError } from "commander";
import { pathOf, plain, repeated, type Printed } from "../../plain-command.js";
import { compareSides } from "../../reproduce/compare-sides.js";
import { reproduceRun } from "../../reproduce/reproduce-run.js";
import { study as runStudyCommand } from "../../reproduce/study.js";
import { record as recordRun, replay as replayRun } from "../../reproduce/record.js";

const statusOf: Readonly<Record<RunComparison["verdict"], number | undefined>> = {
  equal: undefined,
  different: exitStatus.verification,
  incomplete: exitStatus.partly,
  nothing: exitStatus.notFound,
};

const compare = plain(null, {
  name: "compare",
  about: "compare two runs by accuracy, predictions, losses, epochs and tensors",
  takes: {
    a: "<a> a run's folder, one file of it, or a stored version",
    b: "<b> another one",
  },
  help: `
A run's folder has any of these files, which its program leaves in $STEMMA_RUN:
  model.safetensors
  predictions.csv or predictions.json: sample, actual, predicted or output
  log.jsonl or log.csv: a row for each step or epoch, with its loss
Of a version, its tensors, its evaluation and its measurements are compared. What only one side or
none has is said to be so, never called equal. Training time is not compared.

  stemma reproduce compare first second
  stemma reproduce compare soh:1 soh:2

Status 4: different; 5: equal, but one side lacks something; 3: nothing could be compared.
`,
  run: async ({ a, b }, context): Promise<Printed> => {
    const comparison = await compareSides(a, b, context);
    const status = statusOf[comparison.verdict];
    return {
      data: comparison,
      names: comparison.first === undefined ? [] : [comparison.first.criterion],
      text: context.output.wrap(describeComparison(comparison)),
      ...(status === undefined ? {} : { status }),
    };
  },
});

/** Longer times than a timer can wait are refused. */
const maxTimeoutSeconds = 2_000_000;
function secondsOf(text: string): number {
  const seconds = Number(text);
  if (/^\d{1,9}$/.test(text) && seconds >= 1 && seconds <= maxTimeoutSeconds) return seconds;
  throw new InvalidArgumentError(`It is a whole number from 1 to ${maxTimeoutSeconds}.`);
}

const takesCommand = { command: "<command...> the program and its words, after --" } as const;
const runOptions = {
  run: { text: "<dir> keep what the program leaves in $STEMMA_RUN in this new folder", read: pathOf },
  timeout: { text: "<seconds> end the program after this time", read: secondsOf, default: 86_400 },
} as const;

const record = plain(null, {
  name: "record",
  about: "run a program and keep every random number that it draws from the system",
  takes: takesCommand,
  options: {
    profile: { text: "<file> keep them here (default randomness.profile)", read: pathOf },
    ...runOptions,
    force: "overwrite a profile that exists",
  },
  help: `
A small C library, compiled on this machine when it is first used, stands between the program and
the C library. docs/reproduce.md says what it cannot see.

  stemma reproduce record --run first -- python3 train.py
  stemma reproduce replay randomness.profile --run second -- python3 train.py
  stemma reproduce compare first second

The profile has every byte that the program believed to be secret. Keep it as a secret.
`,
  run: recordRun,
});

const replay = plain(null, {
  name: "replay",
  about: "run a program with the random numbers of a recording",
  takes: { profile: { text: "<profile> of a recording", read: pathOf }, ...takesCommand },
  options: runOptions,
  help: `
It fails, and names the place, where the program draws other amounts, in another order, more or less
than was recorded.
`,
  run: replayRun,
});

const run = plain(null, {
  name: "run",
  about: "run a training twice, and remedy what makes the runs differ, until they are equal",
  takes: takesCommand,
  options: {
    asset: repeated("<file> its hash must be the same after each run (repeatable)"),
    keep: { text: "<dir> keep the last pair of runs and its profile in this new folder", read: pathOf },
    file: { text: "<file> write the report here, as JSON", read: pathOf },
    timeout: runOptions.timeout,
    force: "overwrite a report that exists",
  },
  help: `
The program leaves its files in $STEMMA_RUN (stemma reproduce compare --help). Phases of Chen et al.:
two bare runs; compared; if they differ, one run is recorded, which tells what it draws and loads;
variables such as PYTHONHASHSEED and OMP_NUM_THREADS are set one after the other where a loaded
library reads them, each with a pair of runs; last, a run is recorded and replayed.

  stemma reproduce run --asset data.csv --keep pair -- python3 train.py

Status 0: a pair was equal; 4: no remedy that is known here makes it so.
`,
  run: (choices, context) => reproduceRun(choices, context),
});

const maxPairs = 1000;
function countOf(text: string): number {
  const count = Number(text);
  if (/^\d{1,4}$/.test(text) && count >= 1 && count <= maxPairs) return count;
  throw new InvalidArgumentError(`It is a whole number from 1 to ${maxPairs}.`);
}
function seedsOf(text: string): readonly number[] {
  const seeds = text.split(",").map(Number);
  // Python takes no other hash seeds.
  if (/^[\d,]+$/.test(text) && seeds.every((seed) => seed < 2 ** 32)) return seeds;
  throw new InvalidArgumentError("They are whole numbers below 4294967296, with commas between.");
}
const isSetup = (text: string): text is Setup => Object.hasOwn(setups, text);
function setupsOf(text: string): readonly Setup[] {
  const names = text.split(",");
  if (names.every(isSetup)) return names;
  throw new InvalidArgumentError(`Setups: ${setupNames.join(", ")}.`);
}

const study = plain(null, {
  name: "study",
  about: "measure how far runs of a training are apart, free, seeded and recorded",
  takes: takesCommand,
  options: {
    study: { text: "<dir> keep each complete pair here, and go on from there (default study)", read: pathOf },
    pairs: { text: "<n> pairs of each setup", read: countOf, default: 8 },
    setup: { text: `<names> of ${setupNames.join(", ")} (default all that can be)`, read: setupsOf },
    seeds: {
      text: "<numbers> of the pairs, in turn",
      read: seedsOf,
      default: defaultSeeds,
    },
    patch: repeated("<NAME=VALUE> a variable of the setups with a patch (repeatable)"),
    asset: repeated("<file> its hash must be the same after each pair (repeatable)"),
    timeout: runOptions.timeout,
  },
  help: `
The program leaves its files in $STEMMA_RUN (stemma reproduce compare --help). Setups:
  free     nothing is fixed
  seed     STEMMA_SEED and PYTHONHASHSEED are the pair's seed; whether the
           program takes its seed from STEMMA_SEED is up to it
  record   the first run's randomness is recorded, and given to the second
  patch, seed-patch, record-patch
           the same with the variables of --patch

  stemma reproduce study --study lenet -- python3 train.py

A failed run ends the study; the pairs before it stay. Other load on the machine changes times.
Status 5: no bare pair differed, so the study shows nothing.
`,
  run: (choices, context) => runStudyCommand(choices, context),
});

export const commands = [run, compare, study, record, replay];
