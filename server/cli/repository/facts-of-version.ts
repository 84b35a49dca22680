/** The facts of a version that `stemma desc` prints, and of which `stemma diff` shows what differs. Pure. */
import { formatBytes } from "../../../shared/cli/output.js";
import { fileText } from "../file-text.js";
import { nameOf } from "../version-text.js";
import { dataMember, detailsOf, trackedFiles, type Described } from "./current-version.js";
import { courseText, coursesOf } from "./metric-course.js";

export type Fact = readonly [name: string, value: string];

/** Texts by their names, in the order in which they are shown; what a version has none of is not among them. */
export function factsOf(version: Described): readonly Fact[] {
  const { record, metadata = {}, measurements = [], tensorBytes, bases, layers = [] } = version;
  const { message, author, parameters } = detailsOf(metadata);
  const iterations = (record.uses?.checkpoints ?? []).map(({ iteration }) => iteration);
  const data = Object.entries(metadata).filter(([name]) => name.startsWith(dataMember));
  return [
    ...fact("message", message),
    ...fact("author", author ?? version.by),
    ["from", bases.map(nameOf).join(", ") || "-"],
    ...(version.file === undefined
      ? [["network", record.kind === "opaque" ? "not known" : record.architecture.slice(0, 12)] as const]
      : [["file", fileText(version.file)] as const]),
    ...fact("layers", layers.length === 0 ? undefined : String(layers.length)),
    ...fact("licence", version.listed?.license && `${version.listed.license}, as stated`),
    ["tensors", record.root.slice(0, 12)],
    ["size", formatBytes(tensorBytes)],
    ...fact("checkpoints", iterations.length === 0 ? undefined : iterations.join(", ")),
    ...trackedFiles(version).map(({ name, kind, hash }): Fact => [
      `file ${name}`,
      `${kind} ${hash.slice(0, 12)}`,
    ]),
    ...data.map(([name, value]): Fact => [`data ${name.slice(dataMember.length)}`, String(value)]),
    ...Object.entries(parameters).map(([name, value]): Fact => [name, String(value)]),
    ...coursesOf(measurements).map((course): Fact => [course.name, courseText(course)]),
  ];
}

function fact(name: string, value: string | undefined): readonly Fact[] {
  return value === undefined ? [] : [[name, value]];
}
