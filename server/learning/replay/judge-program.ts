/** Judges what running a user's own program once more proves: its tensors and measures against the recorded ones. */
import { defined } from "../../../shared/defined.js";
import type { Metrics } from "../../../shared/programs/metrics.js";
import type { Program } from "../../../shared/programs/program-bundle.js";
import { differingFacts } from "../../../shared/programs/program-record.js";
import {
  compareLibraries,
  libraryThatMatters,
  type ComparedLibraries,
} from "../../../shared/programs/program-libraries.js";
import type { LoadedLibraries, MachineFacts } from "../../../shared/provenance/provenance.js";
import { objectId } from "../../../shared/tensor/hash.js";
import { differingMembers } from "./compare-stories.js";
import type { TensorDifference } from "./compare-tensors.js";
import { describeTensors, measurementsMember, type Judgement } from "./judge-replay.js";
import type { ProgramStory } from "./program-story.js";
import { proofOfMembers, type StoryParts } from "./told-story.js";

export interface ProgramRun {
  readonly story: ProgramStory;
  readonly program: Program;
  /** The facts of the machine that it ran on now. */
  readonly here: MachineFacts;
  /** The libraries of its processes here; absent: they could not be listed. */
  readonly librariesHere?: readonly LoadedLibraries[] | undefined;
  readonly parts: StoryParts;
  /** True if its randomness was replayed, and what it had in memory may have had other addresses than on its device. */
  readonly mayHaveOtherAddresses?: boolean;
  /** The statements of the program about its model. */
  readonly output: Metrics;
  readonly difference: TensorDifference | undefined;
  /** True if the record has another architecture than the base that the program got. */
  readonly isOtherForm: boolean;
  readonly ran: Pick<Judgement, "workMs" | "dataFrom">;
}

/**
 * Tensors that differ refute the record only where nothing else that is known differs: machine, interpreter, and
 * variables that stayed on the device.
 */
export function judgeProgram(run: ProgramRun): Judgement {
  const { story, program, here, parts, output, difference, isOtherForm, ran } = run;
  const libraries = compareLibraries(story.program.libraries, run.librariesHere, ["on its device", "here"]);
  const otherLibrary = libraryThatMatters(story.program.libraries, run.librariesHere);
  const metrics = Object.entries(parts.metadata ?? {}).filter(([name]) => isMetric(name));
  const members = [
    ...differingMembers({ metadata: Object.fromEntries(metrics) }, { metadata: output.metadata }, "none"),
    ...(hasSameMeasurements(parts, output) ? [] : [measurementsMember]),
    ...(isOtherForm ? ["record.architecture"] : []),
  ];
  const others = [
    ...differingFacts(story.program.machine, here).map((name) => factWords[name] ?? name),
    ...program.withheld.map((name) => `the variable ${name}`),
    ...(otherLibrary === undefined ? [] : [otherLibrary]),
    ...(run.mayHaveOtherAddresses === true ? ["perhaps the addresses of what it has in memory"] : []),
  ];
  const isEqual = difference === undefined;
  const verdict =
    isEqual && members.length === 0 ? "proved" : others.length === 0 ? "refuted" : "unreplayable";
  const isMeasured = metrics.length > 0 && members.length === 0;
  return {
    verdict,
    grade: isEqual ? "bit-exact" : isMeasured ? "execution-exact" : "different",
    ...(verdict === "unreplayable" ? { reason: "other-class" as const } : {}),
    text: describe(run, { verdict, members, others, libraries }),
    libraries,
    ...defined({ difference }),
    ...(members.length === 0 ? {} : { members }),
    ...(verdict === "proved"
      ? { proof: proofOfMembers(parts, { description: "none" }), description: "none" as const }
      : {}),
    engineId: story.program.bundle,
    ...ran,
  };
}

function isMetric(name: string): boolean {
  return name.startsWith("metric.");
}

const factWords: Readonly<Record<string, string>> = {
  os: "the system",
  arch: "the processor's architecture",
  cpu: "the processor",
  libc: "the C library",
  interpreter: "the interpreter",
};

function hasSameMeasurements({ record }: StoryParts, { measurements }: Metrics): boolean {
  const expected = record?.objects.measurements;
  return (
    expected === undefined ||
    (measurements !== undefined && objectId("measurements", measurements) === expected)
  );
}

interface Found {
  readonly verdict: Judgement["verdict"];
  readonly members: readonly string[];
  readonly others: readonly string[];
  readonly libraries: ComparedLibraries;
}

function describe(
  { program, parts, difference }: ProgramRun,
  { verdict, members, others, libraries }: Found,
): string {
  const isReplayed = program.recordsRandomness === true;
  const how = isReplayed ? "run again with what it drew on its device" : "run again";
  const again = `the program was ${how}, and ${describeTensors(difference)}`;
  const elsewhere = others.length === 0 ? "" : `other than on its device: ${others.join(", ")}`;
  if (verdict === "proved") {
    const lock = program.lock === undefined ? undefined : program.files[program.lock]?.path;
    const isMeasured = Object.keys(parts.metadata ?? {}).some(isMetric) || parts.record?.objects.measurements;
    return [
      isMeasured ? `${again}; the metric and losses that are recorded came out the same.` : `${again}.`,
      ...(elsewhere === "" ? [] : [`Here was ${elsewhere}.`]),
      ...(libraries.verdict === "equal" ? [`It loaded ${libraries.text}.`] : []),
      ...(lock === undefined ? [] : [`That its libraries here are those of ${lock} is not looked at.`]),
    ].join(" ");
  }
  const story = members.length === 0 ? "" : `; it gave other values of ${members.join(", ")}`;
  return verdict === "unreplayable"
    ? `${again}${story}. That proves nothing: here was ${elsewhere}.`
    : `${again}${story}. Machine and interpreter are as recorded, so either it depends on what its job does not fix ` +
        `(${notFixed(isReplayed, libraries)}: stemma reproduce run), or the record is not true.`;
}

function notFixed(isReplayed: boolean, { verdict }: ComparedLibraries): string {
  const left = ["time", "threads", ...(isReplayed ? ["addresses"] : [])];
  return [
    ...(isReplayed ? [] : ["random numbers"]),
    ...left,
    ...(verdict === "equal" ? [] : ["libraries"]),
  ].join(", ");
}
