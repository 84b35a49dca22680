/** Formats how a version was trained, and how two trainings differ, as lines for people. `-o json` shows all of it. */
import { describeCaller, type Caller } from "../../shared/journal/caller.js";
import { cutText } from "../../shared/cli/text-width.js";
import type { ProvenanceDiffJson } from "../interface/api/models/version-schemas.js";

type Members = Readonly<Record<string, unknown>>;
type Line = readonly [key: string, value: string];

const maxTextLength = 300;

/** Lines of a provenance of format 1; none for other forms. */
export function provenanceLines(provenance: unknown): readonly Line[] {
  const members = membersOf(provenance);
  const { recipe, parameters, random, data, by, engine, exactness, average, program } = members;
  if (members["format"] !== 1 || exactness === undefined) return [];
  const redacted = Object.keys(members).filter((name) => isRedacted(members[name]));
  return [
    ...lineOf("recipe", recipe, ({ name, version, bundle }) =>
      bundle === undefined ? `${textOf(name)} ${textOf(version)}` : `own, ${textOf(bundle).slice(0, 12)}`,
    ),
    ...lineOf("parameters", parameters, (all) =>
      Object.entries(all)
        .map(([name, parameter]) => {
          const { value, from } = membersOf(parameter);
          return `${name} ${textOf(value)} (${textOf(from)})`;
        })
        .join(", "),
    ),
    ...lineOf(
      "random",
      random,
      ({ seed, invocation, streams }) =>
        `seed ${textOf(seed)}, invocation ${textOf(invocation)}, ${Object.keys(membersOf(streams)).length} streams`,
    ),
    ...(Array.isArray(data)
      ? [["data", data.map((set) => describeData(membersOf(set), members)).join("; ")] as const]
      : []),
    ...lineOf("average", average, describeAverage),
    ...(by === undefined || isRedacted(by)
      ? []
      : [
          [
            average === undefined ? "trained by" : "made by",
            by === null ? "schedule" : describeCaller(by as Caller),
          ] as const,
        ]),
    [
      "replay",
      program !== undefined
        ? "by its own program, where that is approved: stemma replay program approve"
        : average !== undefined
          ? isRedacted(average)
            ? "not possible: the rule of the average was redacted"
            : "computes the average again"
          : describeExactness(textOf(exactness), engine),
    ],
    ...(redacted.length === 0 ? [] : [["redacted", redacted.join(", ")] as const]),
  ];
}

function describeAverage({ rule, weights, trimmedEach, chosen }: Members): string {
  const { line, selection, leftOut, leftOutCount } = membersOf(chosen);
  const named = Array.isArray(leftOut) ? leftOut.map((each) => textOf(membersOf(each)["device"])) : [];
  return [
    textOf(rule),
    ...(Array.isArray(weights) ? [`weights ${weights.map(textOf).join(", ")}`] : []),
    ...(trimmedEach === undefined ? [] : [`${textOf(trimmedEach)} trimmed at each end`]),
    ...(chosen === undefined ? [] : [`line ${textOf(line)} on ${textOf(selection)}`]),
    ...(named.length === 0 ? [] : [`${textOf(leftOutCount)} left out: ${named.join(", ")}`]),
  ].join("; ");
}

function describeData({ name, reader, samples }: Members, { dataHashes }: Members): string {
  const counts = membersOf(samples);
  const hash =
    Array.isArray(dataHashes) && dataHashes.length === 1 ? `, ${textOf(dataHashes[0]).slice(0, 12)}` : "";
  const counted =
    counts["train"] === undefined
      ? ""
      : `, ${textOf(counts["train"])} + ${textOf(counts["validation"])} + ${textOf(counts["heldOut"])} samples`;
  return `${name === undefined ? "" : `${textOf(name)}, `}${textOf(reader)}${counted}${hash}`;
}

function describeExactness(exactness: string, engine: unknown): string {
  return exactness === "none"
    ? "not possible: no engine of Stemma trained it"
    : `by the engine ${textOf(engine).slice(0, 12)} (${exactness})`;
}

function lineOf(key: string, value: unknown, describe: (members: Members) => string): readonly Line[] {
  return value === undefined || isRedacted(value)
    ? []
    : [[key, cutText(describe(membersOf(value)), maxTextLength)]];
}

/**
 * "parameters.epochs.value: 10 → 15", one line for each difference.
 * @param names labels of both sides, with a comma between
 */
export function provenanceDiffLines(
  { differences, redacted, sameStory }: ProvenanceDiffJson,
  names?: string,
): readonly string[] {
  const labels = (names ?? "a,b").split(",");
  const lines = Object.entries(differences).flatMap(([name, difference]) =>
    redacted.includes(name) ? [`${name}: redacted, may differ`] : leavesOf(name, difference, labels),
  );
  if (lines.length === 0) return ["trained alike: their provenance is the same"];
  return [
    sameStory
      ? "trained alike: only times differ"
      : `trained differently${names === undefined ? "" : ` (${labels.join(" → ")})`}:`,
    ...lines.map((line) => cutText(`  ${line}`, maxTextLength)),
  ];
}

function leavesOf(path: string, difference: unknown, labels: readonly string[]): readonly string[] {
  const members = membersOf(difference);
  const names = Object.keys(members);
  // A member of the provenance itself may be called "a"; then its value is an object again.
  if (names.length > 0 && names.every((name) => labels.includes(name)))
    return [`${path}: ${labels.map((label) => shown(members, label)).join(" → ")}`];
  return names.flatMap((name) => leavesOf(`${path}.${name}`, members[name], labels));
}

function shown(members: Members, side: string): string {
  return Object.hasOwn(members, side) ? JSON.stringify(members[side]) : "(absent)";
}

function isRedacted(value: unknown): boolean {
  return typeof membersOf(value)["redacted"] === "string";
}

function membersOf(value: unknown): Members {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Members) : {};
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value) ?? "-");
}
