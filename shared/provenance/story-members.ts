/**
 * The members of a story, and what a replay says of each: the one table that the comparison, the verdicts, the
 * documents and the tests share. (docs/provenance.md, "What a replay proves") Pure.
 */
import type { SaveRecord } from "../model/model.js";
import type { ResultMetadata } from "../train/result-metadata.js";
import type {
  AverageRecord,
  CommittedMembers,
  DataDescription,
  ProgramRecord,
  Provenance,
} from "./provenance.js";

/**
 * - `rebuilt`: a replay makes it again and compares it; a difference refutes the story and is named.
 * - `bound`: it is, or is named by, the hash of something that the replay used or that was checked before.
 * - `stated`: somebody said it, and nothing here can tell whether it is so.
 * - `not-rebuildable`: rebuilt elsewhere, but not by this replay: stored samples carry no names, words, scales or
 *   split, another engine may describe in other words, and what was redacted cannot be compared.
 */
export const memberKinds = ["rebuilt", "bound", "stated", "not-rebuildable"] as const;
export type MemberKind = (typeof memberKinds)[number];

export interface StoryMember {
  /** The path in the story; `*` stands for any name or index, and a path for everything below it. */
  readonly path: readonly string[];
  /** The kind where the replay had everything that the training had. */
  readonly kind: Exclude<MemberKind, "not-rebuildable">;
  /** The kind in the story of a program of the user's own, which takes no recipe; absent: the same. */
  readonly ofProgram?: StoryMember["kind"];
  /** True if stored samples do not carry it, so that it needs the description that is stored beside them. */
  readonly isDescription?: true;
  /** The word for people; several members have the same. */
  readonly label: string;
}

type Cell = Omit<StoryMember, "path">;
const rebuilt = (label: string): Cell => ({ kind: "rebuilt", label });
const described = (label: string): Cell => ({ kind: "rebuilt", label, isDescription: true });
const bound = (label: string): Cell => ({ kind: "bound", label });
const stated = (label: string): Cell => ({ kind: "stated", label });
/** The replay of a program is given it, and compares the job that has it with the recorded one. */
const given = (label: string): Cell => ({ kind: "rebuilt", label, ofProgram: "bound" });
/** No replay of a program makes it again. */
const reported = (label: string): Cell => ({ kind: "rebuilt", label, ofProgram: "stated" });

const objects = {
  tree: rebuilt("tensors"),
  architecture: rebuilt("layers"),
  names: stated("names"),
  ownerMap: stated("owner map"),
  environment: bound("environment's hash"),
  measurements: rebuilt("losses"),
  checkpoints: stated("checkpoints"),
  provenance: bound("provenance's hash"),
  metadata: bound("metadata's hash"),
  openings: bound("openings' hash"),
  attachments: stated("attachments"),
} as const satisfies Record<keyof SaveRecord["objects"], Cell>;

const record = {
  format: bound("format"),
  name: stated("names"),
  fleet: stated("names"),
  device: stated("who"),
  line: stated("names"),
  sequence: stated("device's counter"),
  bases: stated("bases of the record"),
  successorOf: stated("bases of the record"),
  kind: bound("layers' hash"),
  contentId: bound("content id"),
  architecture: rebuilt("layers"),
  root: rebuilt("tensors"),
  approach: stated("approach"),
  scheme: stated("scheme"),
  savedAtMs: stated("when"),
  clockErrorMs: stated("when"),
} as const satisfies Record<keyof Omit<SaveRecord, "objects" | "uses">, Cell>;

const uses = {
  engine: stated("archives"),
  recipe: stated("archives"),
  data: stated("place of the data"),
  optimizer: stated("optimizer's state afterwards"),
  checkpoints: stated("checkpoints"),
} as const satisfies Record<keyof NonNullable<SaveRecord["uses"]>, Cell>;

const provenance = {
  engine: bound("engine"),
  recipe: reported("recipe"),
  exactness: stated("exactness class"),
  bases: bound("base"),
  data: bound("samples"),
  environment: bound("environment's hash"),
  committed: bound("commitments"),
} as const satisfies Record<keyof Provenance, Cell>;

const data = {
  reader: described("reader"),
  parameters: described("reader's parameters"),
  name: stated("names"),
  format: described("file format"),
  columns: described("columns, words and scales"),
  transformations: described("transformations"),
  split: described("split"),
  samples: given("counts"),
} as const satisfies Record<keyof DataDescription, Cell>;

const parameter = {
  value: given("parameters"),
  from: stated("origin of parameters"),
} as const;

const committed = {
  random: given("random numbers"),
  state: reported("state before"),
  course: reported("course"),
  times: stated("when"),
  by: stated("who"),
  notes: stated("notes"),
} as const satisfies Record<
  Exclude<keyof CommittedMembers, "data" | "parameters" | "program" | "average">,
  Cell
>;

const program = {
  bundle: { kind: "stated", label: "program", ofProgram: "bound" },
  job: { kind: "stated", label: "job", ofProgram: "rebuilt" },
  limits: { kind: "stated", label: "limits", ofProgram: "bound" },
  machine: stated("machine"),
  libraries: stated("libraries"),
  randomness: { kind: "stated", label: "randomness", ofProgram: "bound" },
} as const satisfies Record<keyof ProgramRecord, Cell>;

const average = {
  arithmetic: bound("rule of the average"),
  rule: bound("rule of the average"),
  weights: bound("weights"),
  trimmedEach: bound("rule of the average"),
  chosen: stated("choice of the bases"),
} as const satisfies Record<keyof AverageRecord, Cell>;

const metadata = {
  "metric.name": rebuilt("metric"),
  "metric.unit": rebuilt("metric"),
  "metric.lowerIsBetter": rebuilt("metric"),
  "metric.before": rebuilt("metric"),
  "metric.after": rebuilt("metric"),
  "training.epochs": reported("course"),
  "training.stoppedEarly": reported("course"),
  "training.samples": reported("counts"),
  "training.validationSamples": reported("counts"),
  "training.heldOutSamples": reported("counts"),
  "training.ms": stated("when"),
  "training.continuations": stated("interruptions"),
  "training.attachmentsDropped": stated("attachments"),
} as const satisfies Record<keyof ResultMetadata, Cell>;

const under = (path: readonly string[], cells: Readonly<Record<string, Cell>>): readonly StoryMember[] =>
  Object.entries(cells).map(([name, cell]) => ({ path: [...path, name], ...cell }));

/** The table. A more special path comes before the one that it is below. */
export const storyMembers: readonly StoryMember[] = [
  ...under(["record"], record),
  ...under(["record", "objects"], objects),
  ...under(["record", "uses"], uses),
  ...under(["provenance"], { format: bound("format"), ...provenance }),
  ...under(["parameters", "*"], parameter),
  ...under([], committed),
  ...under(["program"], program),
  ...under(["average"], average),
  ...under(["data", "*"], data),
  ...under(["metadata"], { ...metadata, "*": stated("notes") }),
  ...under(["environment"], { "*": stated("environment") }),
  ...under([], { architecture: rebuilt("layers"), bases: bound("base"), fileOrder: stated("names") }),
];

/** The member's name in documents and answers, such as `data.columns`. */
export function nameOfMember({ path }: Pick<StoryMember, "path">): string {
  return path.filter((part) => part !== "*").join(".");
}

/** Finds the row of a path in a story; undefined for one of a later release, which nothing here compares. */
export function memberAt(path: readonly string[]): StoryMember | undefined {
  return storyMembers.find(
    (row) =>
      row.path.length <= path.length && row.path.every((part, at) => part === "*" || part === path[at]),
  );
}
