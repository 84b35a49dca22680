/**
 * Finds in which step of a segment a server and a device part: both run it again from the same state, and the states
 * after each step are compared, then the arrays of the first that differ. The device's are its own word, and decide
 * nothing.
 */
import { stateAfterInChild } from "../../../shared/determinism/probe/state-after-in-child.js";
import { defined } from "../../../shared/defined.js";
import { isStemmaError } from "../../../shared/errors.js";
import type { Architecture } from "../../../shared/model/model.js";
import type { Hash } from "../../../shared/tensor/tensor.js";
import { segmentsInChild } from "../../../shared/train/train-in-child.js";
import type { SegmentRun } from "../../../shared/train/training.js";
import {
  maxAnsweredLeaves,
  segmentLeavesCommand,
  unpackArrays,
  unpackLeaves,
  type SegmentLeavesRequest,
} from "../../../shared/wire/kept-states.js";
import type { LiveFleet } from "../../services/context/operations-context.js";
import { compareArrays, describeArrays, type ComparedArrays } from "./compare-arrays.js";
import type { RunSegment } from "./judge-segments.js";
import { spotCheckStopped } from "./replay-errors.js";
import type { PreparedTraining } from "./train-again.js";

/** Milliseconds in which the device may run its segment. */
const answerMs = 10 * 60_000;

export interface BisectedSegment {
  readonly fleet: Pick<LiveFleet, "command" | "isOnline"> | undefined;
  readonly device: string;
  readonly versionId: Hash;
  /** The version by name, for the command that a person runs. */
  readonly model: string;
  readonly segment: RunSegment;
  readonly architecture: () => Promise<Architecture | undefined>;
}

/**
 * Whatever goes wrong, the refutation stands without it: no device decides about that by what it answers here.
 * @returns a sentence on what was found; undefined where nothing was
 */
export async function bisectSegment(
  asked: BisectedSegment,
  training: PreparedTraining,
): Promise<string | undefined> {
  const { fleet } = asked;
  if (fleet?.isOnline(asked.device) !== true) return undefined;
  const device: AnsweringDevice = { ...asked, fleet };
  try {
    const { fromStep, toStep, isLast } = asked.segment.job;
    const everySteps = Math.ceil((toStep - fromStep) / maxAnsweredLeaves);
    const answer = await askAgain(device, { fromStep, toStep, isLast, everySteps }, training);
    const there = unpackLeaves(answer);
    if (there === undefined) return undefined;
    const { job, options } = training;
    const [here] = await segmentsInChild(job, [{ ...asked.segment.job, everySteps }], options);
    const parting = here && findParting(here, there, { everySteps, fromStep });
    if (parting === undefined) return undefined;
    // The step is told without them too.
    const arrays = await differingArrays(device, training, parting).catch((error: unknown) => {
      if (!isStemmaError(error)) throw error;
    });
    return describeParting(parting, arrays ?? undefined, asked.model);
  } catch (error) {
    if (isStemmaError(error)) return undefined;
    throw error;
  }
}

/** A device that can be asked now. */
type AnsweringDevice = BisectedSegment & { readonly fleet: NonNullable<BisectedSegment["fleet"]> };

/** The device's answer; undefined where it says that it cannot. */
async function askAgain(
  { fleet, device, versionId }: AnsweringDevice,
  segment: Omit<SegmentLeavesRequest, "versionId">,
  { options }: PreparedTraining,
): Promise<unknown> {
  const answer = fleet.command(
    device,
    { name: segmentLeavesCommand, body: { versionId, ...segment } },
    answerMs,
  );
  const { code, result } = await Promise.race([answer, untilStopped(options)]);
  return code === "" ? result : undefined;
}

/**
 * Compares the arrays of the first state that differs, where it is known after which step that is. Only this build's
 * engine can be run to a step. @throws StemmaError where one side cannot
 */
async function differingArrays(
  asked: AnsweringDevice,
  training: PreparedTraining,
  parting: Parting,
): Promise<ComparedArrays | undefined> {
  if (parting.kind !== "step" || training.options.engineFolder !== undefined) return undefined;
  const { step, here: leaf, there } = parting;
  const { file, fromStep, toStep, isLast } = asked.segment.job;
  const isEnd = isLast && step === toStep;
  const wanted = { fromStep, toStep: step, isLast: isEnd, everySteps: step - fromStep, arrays: true };
  const theirs = unpackArrays(await askAgain(asked, wanted, training));
  if (theirs === undefined || theirs.leaf !== there) return undefined;
  const { job, options } = training;
  const own = await stateAfterInChild({ training: job, ...defined({ file }), step, isEnd }, options);
  const architecture = await asked.architecture();
  if (architecture === undefined || own === undefined || own.leaf !== leaf) return undefined;
  return compareArrays(architecture, own, theirs);
}

/** Rejects when the check has to end: a device that does not answer must not hold up what was found. */
function untilStopped({ signal }: Pick<PreparedTraining["options"], "signal">): Promise<never> {
  return new Promise((_, reject) => {
    const stop = (): void => {
      reject(spotCheckStopped());
    };
    if (signal?.aborted === true) stop();
    else signal?.addEventListener("abort", stop, { once: true });
  });
}

/** The place where the two part: nowhere, a step, or one of several. */
export type Parting =
  | { readonly kind: "nowhere" }
  | {
      readonly kind: "step";
      readonly step: number;
      readonly here: Hash | undefined;
      readonly there: Hash | undefined;
    }
  | { readonly kind: "steps"; readonly from: number; readonly to: number };

/** Finds after which step the states differ; undefined where the device gives none. Pure. */
export function findParting(
  { leaves: here }: Pick<SegmentRun, "leaves">,
  there: readonly Hash[],
  { everySteps, fromStep }: { readonly everySteps: number; readonly fromStep: number },
): Parting | undefined {
  if (there.length === 0) return undefined;
  const at = here.findIndex(({ leaf }, index) => leaf !== there[index]);
  if (at < 0) return { kind: "nowhere" };
  const last = here[at]?.step ?? here.at(-1)?.step ?? fromStep;
  if (everySteps === 1) return { kind: "step", step: last, here: here[at]?.leaf, there: there[at] };
  return { kind: "steps", from: (here[at - 1]?.step ?? fromStep) + 1, to: last };
}

/** Says where the two part, and what a person does next. Pure. */
export function describeParting(parting: Parting, arrays: ComparedArrays | undefined, model: string): string {
  if (parting.kind === "nowhere")
    return "run again now, the device comes to the same states as this server, so it committed to others than it computes";
  const where = parting.kind === "step" ? `step ${parting.step}` : `steps ${parting.from} to ${parting.to}`;
  const which = arrays === undefined ? "" : `, after which ${describeArrays(arrays)}`;
  return (
    `run again now, the device parts by its own answers from this server in ${where}${which}. States do not tell the operation: run ` +
    `\`stemma probe ${model} --file here.json\` on this server and \`stemma probe ${model} --file there.json\` on the device, ` +
    "then `stemma probe diff here.json there.json`"
  );
}
