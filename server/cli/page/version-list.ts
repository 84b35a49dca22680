/** Versions as rows, newest first, with lanes that lead to what each was trained from. Pure. */
import type { LineageVersion } from "../../interface/api/models/lineage-definitions.js";
import { addedBytes, minuteOfSaving, nameOf, stateOf } from "../version-text.js";
import { detailsOf, type Described } from "../repository/current-version.js";
import { factsOf } from "../repository/facts-of-version.js";
import { coursesOf, figure } from "../repository/metric-course.js";
import { definitions } from "./document.js";
import { html, shortened, type Markup, type Part } from "./markup.js";
import { table, type PageColumn, type Piece } from "./table.js";

/** A version, with what is said of it where it was described. */
export type ListedVersion = Pick<
  LineageVersion,
  | "versionId"
  | "name"
  | "version"
  | "state"
  | "tags"
  | "held"
  | "savedAtMs"
  | "clockErrorMs"
  | "recordedAtMs"
  | "bases"
  | "after"
> & {
  readonly device: string;
  readonly line: string;
  readonly storedBytes?: number | undefined;
  readonly subject?: string | undefined;
  readonly facts?: readonly (readonly [name: string, value: string])[];
  /** The last value of each figure, as text. */
  readonly figures?: ReadonlyMap<string, string>;
};

/** A version as a list shows it, of its description. */
export function listedVersion(described: Described): ListedVersion {
  const { versionId, name, version, state, tags, held, record, recordedAtMs, storedBytes } = described;
  return {
    versionId,
    name,
    version,
    state,
    tags,
    held,
    device: record.device,
    line: record.line,
    savedAtMs: record.savedAtMs,
    clockErrorMs: record.clockErrorMs,
    recordedAtMs,
    bases: record.bases,
    after: record.successorOf === undefined ? [] : [record.successorOf],
    storedBytes,
    ...factsOfListed(described),
  };
}

/** The members of a listed version that only its description has. */
export function factsOfListed(described: Described): Pick<ListedVersion, "subject" | "facts" | "figures"> {
  const { message } = detailsOf(described.metadata ?? {});
  return {
    subject: message?.split("\n", 1)[0],
    facts: factsOf(described),
    figures: new Map(
      coursesOf(described.measurements ?? []).map(({ name, last }) => [name, shortFigure(last.value)]),
    ),
  };
}

/** Four digits, for places where many figures are compared. */
export function shortFigure(value: number | null): string {
  return figure(value === null ? null : Number(value.toPrecision(4)));
}

/** Figures that have a column; all of them are among the facts. */
const maxFigures = 4;
const maxSubject = 200;
/** Characters of a fact in a list; the description of the version alone has all of them. */
const maxFact = 300;
const maxFacts = 60;

interface ListChoices {
  readonly id: string;
  readonly caption: string;
  /** The version that the page is about. */
  readonly marked?: string;
  readonly hasFilter: boolean;
}

/** @param versions each before its bases, as the repository lists them */
export function versionList(versions: readonly ListedVersion[], choices: ListChoices): Piece {
  const places = new Map(versions.map(({ versionId }, at) => [versionId, at]));
  const leadsTo = versions.map(({ bases }, row) =>
    bases.flatMap((base) => {
      const at = places.get(base);
      return at === undefined || at <= row ? [] : [at];
    }),
  );
  const known = new Map(versions.map((version) => [version.versionId as string, version]));
  const figures = mostUsed(versions);
  const columns: readonly PageColumn<ListedVersion>[] = [
    { title: "Version", value: (version) => nameWithFacts(version, known), rem: 8, share: 2 },
    { title: "Trained from", value: ({ bases }) => basesOf(bases, known), rem: 7, share: 1 },
    ...figures.map((name) => ({
      title: name,
      value: ({ figures: own }: ListedVersion) => own?.get(name),
      rem: 6,
      align: "right" as const,
    })),
    { title: "State", value: stateOf, rem: 6, share: 1 },
    { title: "Saved", value: minuteOfSaving, rem: 8.5 },
    ...(versions.some(({ device }) => device !== "")
      ? [{ title: "Device, line", value: ofDevice, rem: 7, share: 1 }]
      : []),
    ...(versions.some(({ subject }) => subject !== undefined)
      ? [
          {
            title: "Message",
            value: ({ subject }: ListedVersion) => subject && shortened(subject, maxSubject),
            rem: 8,
            share: 2,
          },
        ]
      : []),
  ];
  return table({
    ...choices,
    columns,
    rows: versions,
    idOf: ({ versionId }) => anchorOf(versionId),
    isMarked: ({ versionId }) => versionId === choices.marked,
    lanes: { leadsTo, isColoured: true },
  });
}

export function anchorOf(versionId: string): string {
  return `v-${versionId.slice(0, 16)}`;
}

function ofDevice({ device, line }: ListedVersion): string | undefined {
  return device === "" ? undefined : `${device}, ${line}`;
}

type Known = ReadonlyMap<string, ListedVersion>;

function nameWithFacts(version: ListedVersion, known: Known): Markup {
  const { versionId, tags, device, facts = [], after } = version;
  const shown = facts.slice(0, maxFacts).map(([name, value]) => [name, shortened(value, maxFact)] as const);
  const more = facts.length - shown.length;
  return html`<details>
    <summary>${nameOf(version)}</summary>
    ${definitions([
      ["id", html`<code>${versionId}</code>`],
      ["state", stateOf(version)],
      ...(tags.length === 0 ? [] : [["tags", tags.join(", ")] as const]),
      ...(device === "" ? [] : [["device, line", ofDevice(version)] as const]),
      ["added to the store", addedBytes(version)],
      ...(after.length === 0 ? [] : [["declared to come after", basesOf(after, known)] as const]),
      ...shown,
      ...(more === 0 ? [] : [["further facts", `${more}: stemma desc ${nameOf(version)}`] as const]),
    ])}
  </details>`;
}

/** Links to the rows of those in the list; the ids of others. */
function basesOf(bases: readonly string[], known: Known): Part {
  if (bases.length === 0) return undefined;
  return bases.map((base, at) => {
    const version = known.get(base);
    const comma = at < bases.length - 1 ? ", " : "";
    return version === undefined
      ? html`<span class="id">${base.slice(0, 12)}</span>${comma}`
      : html`<a href="#${anchorOf(base)}">${nameOf(version)}</a>${comma}`;
  });
}

/** The figures that most versions have: the loss before others of as many. */
function mostUsed(versions: readonly ListedVersion[]): readonly string[] {
  const counts = new Map<string, number>();
  for (const { figures } of versions)
    for (const name of figures?.keys() ?? []) counts.set(name, (counts.get(name) ?? 0) + 1);
  const rank = (name: string): number => (counts.get(name) ?? 0) + (name === "loss" ? 0.5 : 0);
  return [...counts.keys()].sort((a, b) => rank(b) - rank(a)).slice(0, maxFigures);
}
