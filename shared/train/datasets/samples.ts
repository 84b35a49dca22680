/**
 * Samples that a device collected, from the segment files of its intake (sample-format.ts), or from files of JSON
 * lines as they are sent to it. Each sample stays in the part that it was assigned when it was received, so
 * held-out samples are never trained on.
 */
import { basename, dirname, join } from "node:path";
import { StemmaError } from "../../errors.js";
import type { DatasetFiles, DatasetReader, SamplePart, SampleSet } from "./dataset.js";
import { defaultClasses, describeForm, formOf, misfit, type SampleForm } from "./sample-form.js";
import {
  decodeSegment,
  maxSampleBytes,
  sampleSplits,
  samplesOf,
  segmentSuffix,
  type Sample,
  type SampleSplit,
} from "./sample-format.js";
import { parseJsonLines } from "./json-lines.js";
import { sampleOfInput } from "./sample-input.js";
import { contentKey, type SplitShares } from "./sample-split.js";
import { checkedSet, ParameterReader, partOf } from "./sample-set.js";
import { maxTargets, parseTargets, targetLength, targetPattern, type TargetForm } from "./target-form.js";

const linesSuffix = ".jsonl";
const maxSegments = 10_000;
const maxSegmentBytes = 512 * 1024 * 1024;
const maxTotalBytes = 2 * 1024 * 1024 * 1024;

/**
 * "name:bytes": a segment and its length when the job was made. Bytes that were appended later are not read.
 */
const pinPattern = /^[0-9A-Za-z_-]{1,100}\.samples:[0-9]{1,12}$/;

interface Pin {
  readonly name: string;
  /** Number of bytes to read; all when undefined. */
  readonly bytes: number | undefined;
}

/**
 * Parameters: `task` (regression | classification), `classes`, `segments` ("name:bytes" each; all segments
 * when absent), `newest` (use only this many of the newest training samples; 0 uses all). Samples are ordered
 * by time, then id; of two with the same id the first one is used. With `shape` ("10,3") and `targetSize`,
 * samples of another form are left out and counted; else they are an error. Without validation samples the newest
 * fifth of the training samples is used for validation. `targets` (target-form.ts) declares what each output of the
 * model is compared with; then `task` and `classes` are not used. `parts` names the parts that the training has:
 * samples of the others are left out. Lines of JSON that name no part get one by their content,
 * with the shares `heldOutPercent` and `validationPercent`; lines without a time keep their order.
 */
export const samples: DatasetReader = {
  name: "samples",
  needsLocation: true,
  async read(reference, files) {
    const parameters = new ParameterReader("samples", reference.parameters);
    const task = parameters.oneOf("task", "regression", ["regression", "classification"] as const);
    const classes = parameters.whole("classes", task === "classification" ? defaultClasses : 0, 0, 100_000);
    const newest = parameters.whole("newest", 0, 0, 1_000_000);
    const targets = parameters.has("targets")
      ? parseTargets(parameters.texts("targets", [], targetPattern, maxTargets))
      : undefined;
    const form = neededForm(parameters, {
      classes: task === "classification" ? classes : undefined,
      targets,
    });
    const parts = partsOf(parameters);
    const pinned = parameters.has("segments")
      ? parameters.texts("segments", [], pinPattern, maxSegments)
      : undefined;
    const shares = {
      heldOutPercent: parameters.whole("heldOutPercent", 20, 1, 98),
      validationPercent: parameters.whole("validationPercent", 10, 0, 98),
    };
    parameters.end();
    const location = reference.location ?? ".";
    const isFile = pinned === undefined && (await files.stat(location))?.kind === "file";
    const folder = isFile ? dirname(location) : location;
    const pins: Pin[] =
      pinned?.map((pin) => ({
        name: pin.slice(0, pin.lastIndexOf(":")),
        bytes: Number(pin.slice(pin.lastIndexOf(":") + 1)),
      })) ??
      (isFile ? [basename(location)] : await files.list(location))
        .filter((name) => isFile || name.endsWith(segmentSuffix) || name.endsWith(linesSuffix))
        .map((name) => ({ name, bytes: undefined }));
    if (pins.length > maxSegments)
      throw new StemmaError(
        "DATASET_MALFORMED",
        `${folder} has ${pins.length} segments, more than ${maxSegments}. Name the segments to use.`,
        { folder },
      );
    const found = new Map<string, Sample>();
    const lines = new SampleLines(shares);
    let total = 0;
    for (const pin of pins) {
      const bytes = await readSegment(join(folder, pin.name), pin, files);
      total += bytes.length;
      if (total > maxTotalBytes)
        throw new StemmaError(
          "DATASET_MALFORMED",
          `The samples in ${folder} have more than ${maxTotalBytes} bytes. Name the segments to use.`,
          { folder },
        );
      const read = pin.name.endsWith(segmentSuffix)
        ? samplesOf(decodeSegment(bytes))
        : lines.read(bytes, pin.name);
      for (const sample of read) if (!found.has(sample.id)) found.set(sample.id, sample);
    }
    return setOf([...found.values()], {
      task: targets === undefined ? task : "general",
      form,
      targets,
      parts,
      classes: targets === undefined ? classes : 0,
      newest,
      folder,
      segments: pins.map(({ name }) => name),
    });
  },
};

/** Reads files of JSON lines, in the order in which they are read. */
class SampleLines {
  readonly #splits = new Map<string, SampleSplit>();
  #count = 0;

  constructor(private readonly shares: SplitShares) {}

  /** @throws SAMPLE_INVALID naming file and line */
  read(bytes: Uint8Array, name: string): Sample[] {
    return parseJsonLines(new TextDecoder().decode(bytes), name).map((value, at) => {
      const sample = sampleOfInput(value, `${at + 1} of ${name}`, {
        id: `#${this.#count}`,
        nowMs: this.#count,
        shares: this.shares,
        splitOf: (key) => this.#splits.get(key),
      });
      this.#count++;
      this.#splits.set(contentKey(sample), sample.split);
      return sample;
    });
  }
}

async function readSegment(path: string, { bytes: wanted }: Pin, files: DatasetFiles): Promise<Uint8Array> {
  const stat = await files.stat(path);
  if (stat === undefined)
    throw new StemmaError(
      "DATASET_MALFORMED",
      `The sample segment ${path}, which the training needs, is missing. Collect samples again, or train on the segments that exist.`,
      { path },
    );
  if (stat.size > maxSegmentBytes)
    throw new StemmaError(
      "DATASET_MALFORMED",
      `The sample segment ${path} has ${stat.size} bytes, more than ${maxSegmentBytes}. The intake does not write segments of this size; check where the file comes from.`,
      { path },
    );
  const bytes = await files.read(path);
  if (wanted !== undefined && bytes.length < wanted)
    throw new StemmaError(
      "DATASET_MALFORMED",
      `The sample segment ${path} has ${bytes.length} bytes, but the training was prepared with ${wanted}. Prepare the training again.`,
      { path },
    );
  return wanted === undefined ? bytes : bytes.subarray(0, wanted);
}

/** The form that the parameters name; undefined when they name none. */
function neededForm(
  parameters: ParameterReader,
  { classes, targets }: Pick<SampleForm, "classes" | "targets">,
): SampleForm | undefined {
  if (!parameters.has("shape")) return undefined;
  const shape = parameters.texts("shape", [], /^[1-9][0-9]{0,8}$/, 8).map(Number);
  const targetSize = parameters.whole("targetSize", 1, 1, 1024);
  return targets === undefined ? { shape, targetSize, classes } : { shape, targets };
}

/** The parts that the parameters name. @throws RECIPE_PARAMETERS_INVALID without the part train */
function partsOf(parameters: ParameterReader): ReadonlySet<SampleSplit> {
  const names = parameters.texts("parts", sampleSplits, /^(train|validation|held-out)$/, 3);
  if (!names.includes("train"))
    throw new StemmaError(
      "RECIPE_PARAMETERS_INVALID",
      `The parts ${names.join(", ")} have nothing to train on. Name train among the parts.`,
      { parameter: "parts" },
    );
  return new Set(names as readonly SampleSplit[]);
}

interface SetOptions {
  /** Samples of another form are left out. */
  readonly form: SampleForm | undefined;
  readonly task: SampleSet["task"];
  readonly targets: readonly TargetForm[] | undefined;
  readonly parts: ReadonlySet<SampleSplit>;
  readonly classes: number;
  readonly newest: number;
  readonly folder: string;
  readonly segments: readonly string[];
}

/** Leaves samples of another form out, orders the others, checks that they have the same shape, splits them. */
function setOf(all: readonly Sample[], options: SetOptions): SampleSet {
  const { form, task, classes, newest, folder, segments, parts } = options;
  const fitting =
    form === undefined ? all : all.filter((sample) => misfit(formOf(sample), form) === undefined);
  const ordered = [...fitting].sort((a, b) => a.timeMs - b.timeMs || (a.id < b.id ? -1 : 1));
  const skipped = all.length - ordered.length;
  const first = ordered[0];
  if (first === undefined) throw emptyError(options, skipped);
  const outputs = options.targets?.map((target) =>
    target.kind === "input" ? { ...target, shape: first.shape } : target,
  );
  checkAlike(ordered, first, options);
  const inSplit = (split: SampleSplit): Sample[] =>
    parts.has(split) ? ordered.filter((sample) => sample.split === split) : [];
  let train = inSplit("train");
  let validation = inSplit("validation");
  if (newest > 0) train = train.slice(-newest);
  const isValidationTakenFromTrain = validation.length === 0 && parts.has("validation");
  if (isValidationTakenFromTrain) {
    const cut = train.length - Math.floor(train.length / 5);
    validation = train.slice(cut);
    train = train.slice(0, cut);
  }
  const targetSize =
    outputs === undefined
      ? (first.label?.length ?? 0)
      : outputs.reduce((sum, output) => sum + targetLength(output), 0);
  const part = (list: readonly Sample[]): SamplePart =>
    partOf(
      list.map((sample) => ({
        input: sample.values,
        target: outputs === undefined ? (sample.label ?? []) : targetRow(sample, outputs, targetSize),
      })),
      first.values.length,
      targetSize,
    );
  return checkedSet({
    task,
    classes,
    inputShape: first.shape,
    targetSize,
    ...(outputs === undefined ? {} : { outputs }),
    train: part(train),
    validation: part(validation),
    heldOut: part(inSplit("held-out")),
    withoutParts: [
      ...(parts.has("validation") ? [] : (["validation"] as const)),
      ...(parts.has("held-out") ? [] : (["heldOut"] as const)),
    ],
    description: {
      reader: "samples",
      location: folder,
      format: `segments of at most ${maxSampleBytes} bytes a sample`,
      segments,
      ...(skipped === 0 ? {} : { skipped }),
      columns: [
        { name: "values", role: "input" },
        ...(outputs ?? [{ name: "label" }]).map((output) => ({ ...output, role: "target" })),
      ],
      transformations: [],
      split: {
        by: "each sample's own",
        validation: isValidationTakenFromTrain
          ? "newest fifth of train"
          : parts.has("validation")
            ? "own"
            : "none",
        ...(parts.has("held-out") ? {} : { heldOut: "none" }),
        newest,
      },
    },
  });
}

function emptyError({ form, folder }: SetOptions, skipped: number): StemmaError {
  return new StemmaError(
    "DATASET_EMPTY",
    skipped === 0 || form === undefined
      ? `There are no samples in ${folder}. Name a folder with the segments of a device (*.samples) or ` +
          "with JSON lines (*.jsonl), or send samples to the agent first."
      : `None of the ${skipped} samples in ${folder} has what the model needs (${describeForm(form)}). ` +
          `Send samples of that form; \`stemma agent samples list LINE\` shows what is stored.`,
    { folder },
  );
}

/** @throws DATASET_MALFORMED naming the first sample that differs from the others or from the declared targets */
function checkAlike(ordered: readonly Sample[], first: Sample, { folder, targets }: SetOptions): void {
  const odd = ordered.find(
    ({ shape, label }) =>
      shape.join() !== first.shape.join() || (targets === undefined && label?.length !== first.label?.length),
  );
  if (odd !== undefined)
    throw new StemmaError(
      "DATASET_MALFORMED",
      `The samples ${first.id} and ${odd.id} in ${folder} have different shapes ` +
        `([${first.shape.join(", ")}] and [${odd.shape.join(", ")}]). All samples of a line need the ` +
        "same shape; remove the others.",
      { folder },
    );
  for (const sample of ordered) {
    const problem = misfit(formOf(sample), { targets });
    if (problem !== undefined)
      throw new StemmaError(
        "DATASET_MALFORMED",
        `The sample ${sample.id} in ${folder} cannot be used: ${problem}. Correct or remove it.`,
        { folder, sample: sample.id },
      );
  }
}

/** The targets of all outputs of one sample, one after the other. */
function targetRow(sample: Sample, outputs: readonly TargetForm[], targetSize: number): Float32Array {
  const row = new Float32Array(targetSize);
  let at = 0;
  for (const output of outputs) {
    const values =
      output.kind === "input"
        ? sample.values
        : (sample.targets?.[output.name]?.values ??
          (output.name === "label" ? sample.label : undefined) ??
          []);
    row.set(values, at);
    at += targetLength(output);
  }
  return row;
}
