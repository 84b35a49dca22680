/** Errors of a device's trainings and evaluations: requests, what is missing, trainings that were cut short. */
import { errorOf, StemmaError } from "../../shared/errors.js";
import type { Hash } from "../../shared/tensor/tensor.js";
import { describeForm, type SampleForm } from "../../shared/train/datasets/sample-form.js";
import { counted } from "../../shared/printable.js";

const refused = errorOf("TRAINING_REFUSED");
const modelMissing = errorOf("MODEL_NOT_FOUND");

// Requests.
export const lineUnknown = (line: string, lines: readonly string[]): StemmaError =>
  new StemmaError(
    "LINE_UNKNOWN",
    `This device has no line "${line}"; it has ${lines.join(", ")}. Name one of those, or enrol the device again with that line.`,
    { line },
  );
export const trainingInterrupted = (): StemmaError =>
  new StemmaError(
    "INTERRUPTED",
    "The agent stops before this training begins; request it again after the next start.",
  );
export const earlierUnfinished = (line: string): StemmaError =>
  refused(
    `An earlier training of ${line} was cut short and has to be finished first. It goes on by itself; request this one again after it.`,
    { line },
  );
export const cannotTrainNow = (line: string, because: string, why: string): StemmaError =>
  new StemmaError(
    because === "disk" ? "DISK_BUDGET_EXHAUSTED" : "TRAINING_REFUSED",
    `The line ${line} cannot train now: ${why}. Request it again when that has changed.`,
    { line, because },
  );
/** @param running the line that trains; undefined while the agent stops */
export const deviceBusy = (running: string | undefined): StemmaError =>
  refused(
    `The device ${running === undefined ? "is stopping" : `trains ${running} now`}, and does one at a time. Ask again later.`,
  );
export const recipeNotWanted = (line: string): StemmaError =>
  refused(
    `The line ${line} is trained by a program of the device's own (lines.${line}.trainer in agent.json), so no recipe can be named. Request the training without one.`,
    { line },
  );
export const limitNotAllowed = (most: number): StemmaError =>
  new StemmaError("USAGE", `The limit takes a whole number from 1 to ${most}.`);

export const notThisTraining = (line: string): StemmaError =>
  new StemmaError(
    "NOT_FOUND",
    `The line ${line} does not train from that version now: its training has not begun, or has ended.`,
    { line },
  );
export const endedByServer = (line: string): StemmaError =>
  new StemmaError(
    "TRAINING_STOPPED",
    `The server ended the training of ${line}, which it had asked for. The line keeps the model that it runs.`,
    { line },
  );

// Models, recipes and samples.
export const nothingToStartFrom = (line: string): StemmaError =>
  refused(`The line ${line} has no model to start from. Assign one on the server.`, { line });
export const withoutArchitecture = (line: string, name: string): StemmaError =>
  new StemmaError(
    "MODEL_OPAQUE",
    `The model "${name}" of ${line} came without an architecture, so it can be kept and used but not trained. Assign one that was imported with --arch, or let a program of your own train it (lines.${line}.trainer in agent.json).`,
    { line },
  );
export const notMeasurable = (line: string, versionId: Hash): StemmaError =>
  new StemmaError(
    "MODEL_OPAQUE",
    `The model ${versionId.slice(0, 12)} of ${line} has no architecture, and no program measures it here. Name one in agent.json (lines.${line}.measure).`,
    { line, versionId },
  );
export const nothingToEvaluate = (line: string): StemmaError =>
  modelMissing(`The line ${line} runs no model yet. Assign one on the server.`, {
    line,
  });
export const modelNotKept = (line: string, versionId: Hash, keepLast: number): StemmaError =>
  modelMissing(
    `The line ${line} has no model ${versionId.slice(0, 12)} on this device, which keeps the last ${keepLast} (disk.keepLast). Name one that it has, or assign that one to it.`,
    { line, versionId },
  );
export const noRecipe = (line: string): StemmaError =>
  refused(
    `No recipe is set for the line ${line}. Name one with the request, or in the device's agent.json under lines.${line}.recipe.`,
    { line },
  );
export const noDataset = (line: string): StemmaError =>
  refused(
    `The line ${line} collects no samples and its settings name no dataset. Set lines.${line}.dataset in agent.json.`,
    { line },
  );
export const noSamples = (line: string, unfit: number, form: SampleForm): StemmaError =>
  new StemmaError(
    "DATASET_EMPTY",
    unfit === 0
      ? `The line ${line} has no samples yet. Send some with \`stemma agent samples\`, or put files into its inbox.`
      : `None of the ${unfit} samples of the line ${line} fits its model, which needs ${describeForm(form)}. Send samples of that form; \`stemma agent samples list ${line} --unfit\` shows those that are skipped.`,
    { line },
  );
export const noHeldOut = (line: string): StemmaError =>
  new StemmaError(
    "DATASET_EMPTY",
    `The line ${line} has no held-out samples, so no model can be measured. Send more samples, or use data that has that part.`,
    { line },
  );

// The native backend.
export const noBackend = (why: string): StemmaError =>
  new StemmaError(
    "BACKEND_UNAVAILABLE",
    `${why}. Do that, or add "wasm" to training.backends of the profile.`,
  );
export const nativeFailed = (why: string, cause: unknown): StemmaError =>
  new StemmaError(
    "BACKEND_UNAVAILABLE",
    `The native backend failed: ${why} The profile names no other one, so the training has failed. \`stemma agent backend check\` examines it; with "wasm" in training.backends such a training goes on there.`,
    { cause },
  );

// Trainings that were cut short.
export const commandNotSet = (line: string, invocation: number): StemmaError =>
  refused(
    `The command that began the training ${invocation} of ${line} is no longer set in agent.json (lines.${line}.trainer.exec). The line trains with its new settings when it is due.`,
    { line },
  );
export const recipeNotSet = (line: string, invocation: number, recipe: string): StemmaError =>
  refused(
    `The training ${invocation} of ${line} was cut short, and agent.json no longer sets its recipe ${recipe} (lines.${line}.recipe, or trainer.exec). It is given up; the line trains with its new settings when it is due.`,
    { line, invocation },
  );
export const cutShortTooOften = (line: string, invocation: number, tries: number): StemmaError =>
  new StemmaError(
    "TRAINING_STOPPED",
    `The training ${invocation} of ${line} was cut short ${counted(tries, "time")} without getting further: the power went, or the agent or its engine was killed. It is given up; the line trains again when it is due. Look whether the device has the memory that its profile allows (training.memoryLimitMb), and whether it stays on long enough.`,
    { line, invocation, tries },
  );
