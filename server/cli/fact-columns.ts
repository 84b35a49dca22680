/** Facts of a journal as rows of a table. Pure. */
import { formatTime, type Column } from "../../shared/cli/output.js";
import { describeCaller, type Caller } from "../../shared/journal/caller.js";
import type { ListedFact } from "../interface/api/stores/journal-schemas.js";

export const factColumns: readonly Column<ListedFact>[] = [
  { title: "POSITION", value: (row) => row.position, align: "right" },
  { title: "TIME", value: (row) => formatTime(row.atMs) },
  { title: "FACT", value: (row) => row.type },
  { title: "ABOUT", value: describeSubject },
  // A fact that a device, a rule or the server itself caused has nobody.
  {
    title: "BY",
    value: (row) => (row["by"] === undefined ? "-" : describeCaller(row["by"] as Caller | string)),
  },
];

/** Describes what a fact is about: the name or device, the version, and the reason. */
export function describeSubject(fact: ListedFact): string {
  const members = fact as Readonly<Record<string, unknown>>;
  const { name, version, tag, device, line, versionId, engineId, engine, wave } = members;
  const subject = [
    ...["rollout", "batch", "authority"].map((member) => textOr(members[member])),
    typeof device === "string" ? (typeof line === "string" ? `${device}/${line}` : device) : undefined,
    typeof name === "string"
      ? `${name}${typeof version === "number" ? `:${version}` : typeof tag === "string" ? `:${tag}` : ""}`
      : undefined,
    ...[versionId, engineId ?? engine].map((id) => (typeof id === "string" ? id.slice(0, 12) : undefined)),
    typeof wave === "number" ? `wave ${wave}` : undefined,
    describeValues(members["labels"] ?? members["settings"]),
    ...["change", "host", "rule", "location", "phase", "verdict", "because"].map((member) =>
      textOr(members[member]),
    ),
  ].filter((text) => text !== undefined);
  return subject.join(", ");
}

/** "region=eu, depot-": values by key of labels or settings, where null removes one. */
function describeValues(values: unknown): string | undefined {
  if (typeof values !== "object" || values === null) return undefined;
  return Object.entries(values)
    .map(([key, value]) => (value === null ? `${key}-` : `${key}=${String(value)}`))
    .join(", ");
}

function textOr(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

/** A fact as one line: when, what, about what, and who caused it. */
export function factLine(fact: ListedFact): string {
  const by = fact["by"] as Caller | string | undefined;
  const subject = describeSubject(fact);
  return `${formatTime(fact.atMs)} ${fact.type}${subject === "" ? "" : ` ${subject}`}${by === undefined ? "" : ` by ${describeCaller(by)}`}`;
}
