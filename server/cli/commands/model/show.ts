/** `stemma model show|diff`: information about models, without their tensors. */
import { formatBytes, formatDuration, formatTime } from "../../../../shared/cli/output.js";
import { counted } from "../../../../shared/printable.js";
import type { Measurement } from "../../../../shared/train/training.js";
import type { ModelDescription } from "../../../interface/api/models/version-schemas.js";
import type { ModelDiff } from "../../../storage/repository/answers/version-answers.js";
import { describeHold } from "../../../storage/repository/state/hold.js";
import { fileText, filesText } from "../../file-text.js";
import { listed, plain } from "../../plain-command.js";
import { proofLines } from "../../proof-text.js";
import { provenanceDiffLines, provenanceLines } from "../../provenance-text.js";
import { describeClaim, describeDataDropped, describeReplay, describeSpotCheck } from "../../verdict-text.js";
import { addedBytes, describeBy, describeEnd, nameOf, savedOf, stateOf } from "../../version-text.js";

const show = plain("model", {
  name: "show",
  about: "describe one model: layers, sizes, lineage, measurements, environment",
  takes: { model: "name, name:version, name:tag or id" },
  print: (description, _, { output }) => {
    const facts = factsOf(description);
    const proofKeys = (description.proof === undefined ? [] : proofLines(description.proof)).map(
      ([key]) => key,
    );
    const width = Math.max(...facts.map(([key]) => key.length));
    return {
      ...listed(description.file === undefined ? description.leaves : [], {
        nameOf: (leaf) => leaf.name,
        columns: [
          { title: "TENSOR", value: (leaf) => leaf.name },
          { title: "TYPE", value: (leaf) => leaf.dtype },
          { title: "SHAPE", value: (leaf) => `[${leaf.shape.join(", ")}]` },
          { title: "BYTES", value: (leaf) => formatBytes(leaf.bytes), align: "right" },
          { title: "LAST CHANGED IN", value: (leaf) => nameOf(leaf.owner) },
        ],
        empty:
          description.retired === undefined
            ? description.file === undefined
              ? "no tensors"
              : "a file that is kept as it is"
            : "retired: its name, parents and times are kept, its tensors are not",
      }),
      data: description,
      names: [description.versionId],
      text: facts
        .map(([key, value]) => {
          const line = `${key.padEnd(width)}  ${value}`;
          // The lists of a proof are long; any other fact stays one line, for programs that look for it.
          return proofKeys.includes(key) ? output.wrap([line]) : line;
        })
        .join("\n"),
    };
  },
});

function factsOf(description: ModelDescription): readonly (readonly [string, string])[] {
  const {
    record,
    hold,
    retired,
    replayed,
    spotCheck,
    dropped,
    dataDropped,
    claim,
    evaluations,
    measurements,
  } = description;
  return [
    ["model", nameOf(description)],
    ["id", description.versionId],
    ["content", record.contentId],
    ["root", record.root],
    ["kind", description.file === undefined ? record.kind : "file"],
    ...fact("file", description.file && fileText(description.file)),
    ...fact(
      "scheme",
      record.scheme && `${record.scheme}: reduced, its numbers are not those that were trained`,
    ),
    ["fleet / device / line", placeText(description)],
    ["state", stateOf(description)],
    ...fact("held", hold && describeHold(hold)),
    ...fact("retired", retired && describeEnd(retired)),
    ...fact("claim", claim && describeClaim(claim)),
    ...fact("replayed", replayed && describeReplay(replayed)),
    ...fact("spot check", spotCheck && describeSpotCheck(spotCheck)),
    ...(description.proof === undefined ? [] : proofLines(description.proof)),
    ...fact("tensors", dropped && describeDropped(dropped)),
    ...fact("data", dataDropped && describeDataDropped(dataDropped)),
    ...fact(
      "evaluations",
      evaluations === undefined
        ? undefined
        : `${evaluations} stored: stemma model evals ${nameOf(description)}`,
    ),
    [originKey(description), description.bases.map(nameOf).join(", ") || "-"],
    ["derived", description.derived.map(nameOf).join(", ") || "-"],
    ["saved", savedOf(description)],
    ["recorded", `${formatTime(description.recordedAtMs)}${describeBy(description.by)}`],
    [
      "size",
      `${formatBytes(description.tensorBytes)}, ${formatBytes(description.ownBytes)} of it new; ` +
        `added to the store when recorded: ${addedBytes(description)}`,
    ],
    ...usesFacts(description),
    ...fact("measured", measurements && describeMeasurements(measurements)),
    ...provenanceLines(description.provenance),
    ["environment", describeEnvironment(description.environment)],
    ...Object.entries(description.metadata ?? {}).map(([key, value]) => [key, String(value)] as const),
  ];
}

/** An average was not trained. */
function originKey({ record, provenance }: ModelDescription): string {
  if (record.scheme !== undefined) return "reduced from";
  return (provenance as { readonly average?: unknown } | null | undefined)?.average === undefined
    ? "trained from"
    : "average of";
}

function describeDropped({ because, atMs, by, replayMs }: NonNullable<ModelDescription["dropped"]>): string {
  const why = because === "" ? "" : `: ${because}`;
  return (
    `dropped ${formatTime(atMs)}${describeBy(by)}${why}; a recovery trains for ${formatDuration(replayMs)}, ` +
    "its ancestors without tensors not counted"
  );
}

/** Checkpoints and the optimizer's state, and what a replay of the training needs. */
function usesFacts({ record, uses }: ModelDescription): readonly (readonly [string, string])[] {
  const { checkpoints = [], optimizer } = record.uses ?? {};
  const iterations = checkpoints.map(({ iteration }) => iteration);
  return [
    ...fact("checkpoints", iterations.length === 0 ? undefined : `after ${shortList(iterations)} iterations`),
    ...fact("optimizer", optimizer && "its state is stored (model recover --with optimizer)"),
    ...uses.map(
      ({ kind, id, byteLength }) =>
        [
          kind,
          `${id.slice(0, 16)}, ${byteLength === null ? absentText(kind) : formatBytes(byteLength)}`,
        ] as const,
    ),
  ];
}

/** Engines are never taken from a device, so a version may be complete without one. */
function absentText(kind: string): string {
  return kind === "engine" ? "not in this store: stemma replay engine approve adds it" : "not in this store";
}

const maxListed = 12;

function shortList(numbers: readonly number[]): string {
  const more = numbers.length - maxListed;
  return `${numbers.slice(0, maxListed).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}

/** Describes a fact in one line; an empty list where there is nothing to show. */
function fact(key: string, value: string | undefined): readonly (readonly [string, string])[] {
  return value === undefined ? [] : [[key, value]];
}

function describeEnvironment(environment: ModelDescription["environment"]): string {
  const fields = Object.entries(environment).map(
    ([key, value]) => `${key} ${key === "engine" ? value.slice(0, 12) : value}`,
  );
  return fields.join(", ") || "-";
}

function describeMeasurements(measurements: readonly Measurement[]): string {
  const [first, last] = [measurements[0], measurements.at(-1)];
  // A log may have no loss, or one that is not finite.
  const lossOf = ({ loss }: Measurement): string => (loss as number | null)?.toPrecision(3) ?? "not known";
  const course =
    first === undefined || last === undefined
      ? ""
      : `, loss ${lossOf(first)} at iteration ${first.iteration} → ${lossOf(last)} at ${last.iteration}`;
  return `${counted(measurements.length, "time")}${course} (all with -o json)`;
}

function placeText({ record, received }: Pick<ModelDescription, "record" | "received">): string {
  const { fleet, device, line } = record;
  const place = `${fleet} / ${device || "-"} / ${line || "-"}`;
  return received === true ? `${place}, of another repository, as its record states` : place;
}

const diff = plain("diff", {
  name: "diff",
  about: "which layers differ between two models, and what they follow from",
  takes: { a: "", b: "" },
  options: {
    labels: "<a,b> what both are called in the differences, such as original,reproduced",
  },
  print: (answer, { labels }) => ({
    ...listed(answer.files === undefined ? answer.changes : [], {
      nameOf: (change) => change.name,
      columns: [
        { title: "CHANGE", value: (row) => row.kind },
        { title: "TENSOR", value: (row) => row.name },
        { title: "WAS", value: (row) => (row.a ? `${row.a.dtype} [${row.a.shape.join(", ")}]` : "-") },
        { title: "IS", value: (row) => (row.b ? `${row.b.dtype} [${row.b.shape.join(", ")}]` : "-") },
        ...(answer.changes.some(({ otherName }) => otherName !== undefined)
          ? [{ title: "OTHER NAME", value: (row: TensorChange): string | undefined => row.otherName }]
          : []),
      ],
      empty:
        answer.files === undefined ? "the two models have the same tensors" : "two files, kept as they are",
    }),
    data: answer,
    text: [
      ...relationLines(answer.changes),
      `${describeArchitectures(answer)}; ${answer.comparisons} hashes compared`,
      ...(answer.provenance === undefined ? [] : provenanceDiffLines(answer.provenance, labels)),
    ].join("\n"),
  }),
});

type TensorChange = ModelDiff["changes"][number];

/** Relations that are shown; more are counted. */
const maxRelationLines = 20;

/** Below the table, whose columns leave no space for them in 80 characters. */
function relationLines(changes: readonly TensorChange[]): readonly string[] {
  const found = changes.filter(({ relation }) => relation !== undefined);
  const more = found.length - maxRelationLines;
  return [
    ...found.slice(0, maxRelationLines).map(({ name, relation }) => `${name}: ${relation ?? ""}`),
    ...(more > 0 ? [`and ${more} more follow from what they were (all with -o json)`] : []),
  ];
}

function describeArchitectures({ sameArchitecture, opaque, files }: ModelDiff): string {
  if (files !== undefined) return filesText(files);
  if (opaque) return "no architecture is known of either: tensors are compared by name";
  return sameArchitecture ? "same architecture" : "different architectures";
}

export const commands = [show, diff];
