/** `stemma probe`: what each layer of a model gives on fixed inputs, to compare two machines (MM11). */
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { totalmem, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { InvalidArgumentError } from "commander";
import { probeDifferences, whyIncomparable } from "../../../../shared/determinism/compare-probes.js";
import { describeComparison, describeProbe } from "../../../../shared/determinism/probe-text.js";
import { appendValue } from "../../../../shared/cli/command-line.js";
import { exitStatus, StemmaError } from "../../../../shared/errors.js";
import { probeBackends, probeThreads } from "../../../../shared/determinism/probe/probe-job.js";
import { probeInChildren, type ProbeOutcome } from "../../../../shared/determinism/probe/probe-in-child.js";
import { pathOf, plain, type Choices, type PlainContext, type Printed } from "../../plain-command.js";
import { readExactDifference, readProbe, tensorsPath, writeProbe } from "../../probe-files.js";
import { listProbed } from "../../probe-list.js";
import { findProbed, writeProbedModel, type ProbedModel } from "../../probed-model.js";
import { refuseExisting } from "../../stream-file.js";
import { nameOf } from "../../version-text.js";

const whole =
  (low: number, high: number) =>
  (text: string): number => {
    const value = Number(text);
    if (!/^\d{1,15}$/.test(text) || value < low || value > high)
      throw new InvalidArgumentError(`It is a whole number from ${low} to ${high}.`);
    return value;
  };

function seedOf(text: string): string {
  if (/^(0|[1-9][0-9]{0,19})$/.test(text) && BigInt(text) < 2n ** 64n) return text;
  throw new InvalidArgumentError("It is a whole number below 2^64.");
}

/** WebAssembly can address 4 GiB; a machine keeps half of its memory for the rest. */
const defaultMemoryMb = Math.max(256, Math.min(4095, Math.floor(totalmem() / 2 ** 21)));

const options = {
  file: { text: "<file> write the summary here", read: pathOf },
  tensors: "with --file: also write every output and gradient, into FILE.safetensors beside it",
  force: "overwrite files that exist",
  runs: { text: "<n> processes that run the same and are compared", read: whole(1, 100), default: 2 },
  backend: { text: "<name> what computes (wasm: the engine's)", choices: probeBackends, default: "wasm" },
  linked: {
    text: "<dir> with --backend native: the folder native of an agent's home, where a libtensorflow is linked",
    read: pathOf,
  },
  threads: { text: "<n> 1, 2 or 4 threads (1; native: those that it was linked for)", read: threadsOf },
  seed: {
    text: "<number> seed of inputs, of weights that are drawn, and of dropout",
    read: seedOf,
    default: "1",
  },
  batch: { text: "<n> samples of the inputs", read: whole(1, 4096), default: 2 },
  size: {
    text: "<n> extent of inputs where the model leaves it open",
    read: whole(1, 65_536),
    default: 32,
  },
  exec: {
    text: "<program...> a program of your own, and its words, that runs its model and leaves the summary",
    read: appendValue,
  },
  timeout: {
    text: "<seconds> with --exec: end the program after this time",
    read: whole(1, 2_000_000),
    default: 3600,
  },
  memory: {
    text: "<MiB> memory for tensors",
    read: whole(16, 1_048_576),
    default: defaultMemoryMb,
  },
} as const;
type ProbeChoices = Choices<unknown, unknown, typeof options>;

function threadsOf(text: string): number {
  const threads = probeThreads.find((count) => String(count) === text);
  if (threads === undefined) throw new InvalidArgumentError("It is 1, 2 or 4.");
  return threads;
}

const probe = plain(null, {
  name: "run",
  isDefault: true,
  about: "probe a model, or an architecture with weights from a seed; `stemma probe MODEL` does it, too",
  takes: {
    model:
      "[model] name, name:version, name:tag or id; a file of an architecture (model.json), or its hash from `stemma probe list`",
  },
  options,
  help: `
A probe evaluates the model and runs one step of training, forward and backward, on inputs that
are drawn from a seed. Of each layer it keeps digest, range and norm of its outputs and gradients,
and the operations that made them. It runs twice, in two processes, and compares them: the command
ends with status 4 where they differ.

  stemma probe soh:2 --file here.json       on one machine
  stemma probe soh:2 --file there.json      on the other, or with --backend, --threads, another Node
  stemma probe diff here.json there.json    the first layer and operation that differ

Weights are the model's own. Of an architecture they are drawn from the seed.

  stemma probe --exec python3 probe_net.py --file here.json
  stemma probe soh:2 --exec python3 probe_net.py --file here.json

A program gets the model's tensors as $STEMMA_INPUT/model.safetensors and leaves
$STEMMA_RUN/probe.json, as stemma.probe.probe(model, inputs) of the Python package writes it.
A word of the program that begins with a hyphen is given by itself: --exec=-u.

docs/probe.md says what a probe can tell.
`,
  run: ({ model, ...choices }, context) => probeCommand(model, choices, context),
});

async function probeCommand(
  argument: string | undefined,
  choices: ProbeChoices,
  context: PlainContext,
): Promise<Printed> {
  const { file, tensors, force } = choices;
  if (tensors && file === undefined)
    throw new StemmaError("USAGE", "--tensors writes beside the summary. Name it with --file FILE.json.");
  if ((choices.backend === "native") !== (choices.linked !== undefined))
    throw new StemmaError(
      "USAGE",
      "--backend native and --linked go together: --backend native --linked AGENT_HOME/native.",
    );
  if (file !== undefined) await refuseExisting(file, force);
  if (file !== undefined && tensors) await refuseExisting(tensorsPath(file), force);
  if (file !== undefined) await mkdir(dirname(file), { recursive: true });
  if (choices.exec !== undefined) return await probeOfProgram(argument, choices, context);
  if (choices.timeout !== defaultChoices.timeout)
    throw new StemmaError("USAGE", "--timeout goes with --exec. Leave it out, or name a program.");
  if (argument === undefined)
    throw new StemmaError(
      "USAGE",
      "Name one model or architecture to probe, or a program with --exec PROGRAM.",
    );
  const probed = await findProbed(argument, context);
  return await withProbe(probed, choices, context, async ({ summary, difference, tensorsFile }) => {
    if (file !== undefined) await writeProbe(file, summary, tensorsFile);
    return printed({ title: probed.title, summary, difference, file }, context);
  });
}

/** Probes by a program of the user's own: it gets the model that the argument names, where there is one. */
async function probeOfProgram(
  argument: string | undefined,
  choices: ProbeChoices,
  context: PlainContext,
): Promise<Printed> {
  const { exec: command = [], runs, timeout, file } = choices;
  refuseForProgram(choices);
  const version = argument === undefined ? undefined : await context.call("model", { model: argument });
  return await inWorkFolder(context, async (workFolder) => {
    const { probeProgram } = await import("../../probe-program.js");
    const program = { command, runs, timeoutSeconds: timeout, version };
    const { summary, difference, given } = await probeProgram(program, workFolder, context);
    if (file !== undefined) await writeProbe(file, summary, undefined);
    const notes =
      version === undefined || summary.model.root === given
        ? []
        : [
            `  the weights are not those of ${nameOf(version)} under its names: the program loaded or named others`,
          ];
    const title = version === undefined ? command.join(" ") : `${nameOf(version)} by ${command.join(" ")}`;
    return printed({ title, summary, difference, file, notes }, context);
  });
}

/** Refuses options that a program would not hear of. @throws USAGE */
function refuseForProgram(choices: ProbeChoices): void {
  const unheard = (
    ["tensors", "backend", "linked", "threads", "seed", "batch", "size", "memory"] as const
  ).filter((name) => choices[name] !== defaultChoices[name]);
  if (unheard.length > 0)
    throw new StemmaError(
      "USAGE",
      `With --exec the program decides ${unheard.map((name) => `--${name}`).join(", ")}: leave that out. A word of ` +
        `the program's own that begins with a hyphen is given by itself: --exec=--${unheard[0] ?? ""}.`,
    );
}

interface Probed extends Pick<ProbeOutcome, "summary" | "difference"> {
  readonly title: string;
  readonly file: string | undefined;
  readonly notes?: readonly string[];
}

function printed(
  { title, summary, difference, file, notes = [] }: Probed,
  { output }: PlainContext,
): Printed {
  return {
    data: { ...summary, ...(file === undefined ? {} : { file }) },
    names: [summary.model.architecture],
    text: output.wrap([
      ...describeProbe(title, summary, difference),
      ...notes,
      ...(file === undefined ? [] : [`  written to ${file}`]),
    ]),
    ...(summary.runs.differing === 0 ? {} : { status: exitStatus.verification }),
  };
}

/** Gives the work a folder that is removed afterwards. */
async function inWorkFolder<Result>(
  { signal }: PlainContext,
  work: (folder: string) => Promise<Result>,
): Promise<Result> {
  const folder = await mkdtemp(join(tmpdir(), "stemma-probe-"));
  try {
    return await work(folder);
  } catch (error) {
    // The child's own error says that it was killed, not by whom.
    signal.throwIfAborted();
    throw error;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function withProbe<Result>(
  probed: ProbedModel,
  { runs, backend, linked, threads, seed, batch, size, memory, tensors }: ProbeChoices,
  context: PlainContext,
  use: (outcome: ProbeOutcome) => Promise<Result>,
): Promise<Result> {
  const { output, signal } = context;
  return await inWorkFolder(context, async (workFolder) => {
    const model = join(workFolder, "model");
    await writeProbedModel(probed, model, context);
    const weights = probed.version === undefined ? "drawn" : "own";
    const job = {
      model,
      weights,
      seed,
      batch,
      size,
      backend,
      threads,
      memoryLimitMb: memory,
      tensors,
    } as const;
    const outcome = await probeInChildren(
      { ...job, linked, runs },
      {
        workFolder,
        signal,
        onRun: (run) => {
          output.progress(`probing ${probed.title}: run ${run} of ${runs}`);
        },
      },
    );
    output.endProgress();
    return await use(outcome);
  });
}

const diff = plain(null, {
  name: "diff",
  about: "where two probes of the same model on the same inputs differ first, and by how much",
  takes: { a: "<a> summary of a probe", b: "<b> summary of another one" },
  help: `
The first difference is named in the order in which a training computes: evaluation, forward pass,
backward pass. Where both have their tensors beside them (--tensors), its size is exact; else it is
what range, norm and 8 numbers of each tensor tell. The command ends with status 4 where something
differs, and with 2 where model, seed or inputs are not the same.
`,
  run: async ({ a, b }, { output }): Promise<Printed> => {
    const [left, right] = [await readProbe(a), await readProbe(b)];
    const reasons = whyIncomparable(left, right);
    if (reasons.length > 0)
      throw new StemmaError(
        "USAGE",
        `${a} and ${b} cannot be compared, because these are not the same: ${reasons.join(", ")}. ` +
          "Probe the same model with the same --seed, --batch and --size; a program loads its weights and inputs " +
          "from files.",
        { reasons },
      );
    const comparison = probeDifferences(left, right);
    const [first] = comparison.differences;
    const exact = first && (await readExactDifference(first, [a, b]));
    const { differences, compared, unreached, together } = comparison;
    return {
      data: { same: first === undefined, compared, differences, exact, unreached, together },
      names: first === undefined ? [] : [first.tensor],
      text: output.wrap(describeComparison(left, right, { comparison, exact })),
      ...(first === undefined ? {} : { status: exitStatus.verification }),
    };
  },
});

const list = plain(null, {
  name: "list",
  about: "every architecture of the fleet: whether it is exact, else which layer makes it not so",
  takes: { summaries: "[summaries...] of probes, of this machine and others" },
  options: { run: "probe each architecture now, on this machine, with drawn weights" },
  help: `
An architecture is called probed only where a summary of it is given or --run makes one. Of the
others only their layers are known: whether one of them draws random numbers that the seed does not
reach, which the engine refuses to train.
`,
  run: ({ summaries, run }, context) =>
    listProbed(
      summaries ?? [],
      context,
      run
        ? (probed) =>
            withProbe(probed, defaultChoices, context, async ({ summary }) => Promise.resolve(summary))
        : undefined,
    ),
});

const defaultChoices: ProbeChoices = {
  file: undefined,
  tensors: false,
  force: false,
  runs: 2,
  backend: "wasm",
  linked: undefined,
  threads: undefined,
  seed: "1",
  batch: 2,
  size: 32,
  exec: undefined,
  timeout: 3600,
  memory: defaultMemoryMb,
};

export const commands = [probe, diff, list];
