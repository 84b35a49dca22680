/** The page of several versions side by side: what differs, with what is equal folded away. Pure. */
import type { ModelDiff } from "../../storage/repository/answers/version-answers.js";
import { filesText } from "../file-text.js";
import { nameOf, stateOf } from "../version-text.js";
import type { Described } from "../repository/current-version.js";
import { chip } from "./owner-colours.js";
import { curveSections } from "./curves-of-versions.js";
import { folded, pageDocument, type Section } from "./document.js";
import { html, shortened, type Part } from "./markup.js";
import { table, type Piece } from "./table.js";

export interface ComparedFact {
  readonly name: string;
  readonly values: readonly (string | undefined)[];
}

export interface ComparisonPage {
  /** Two or more; the others are compared with the first. */
  readonly versions: readonly Described[];
  readonly facts: readonly ComparedFact[];
  /** The tensors of each but the first against those of the first. */
  readonly diffs: readonly ModelDiff[];
  readonly writtenAtMs: number;
}

export function comparisonPage({ versions, facts, diffs, writtenAtMs }: ComparisonPage): string {
  const differing = facts.filter(({ values }) => new Set(values).size > 1);
  const equal = facts.filter(({ values }) => new Set(values).size === 1);
  const [shown, same] = [
    factTable(
      "differing",
      "Facts that differ; those unlike the first version's are marked ≠",
      differing,
      versions,
    ),
    factTable("equal", "Facts that are equal", equal, versions),
  ];
  return pageDocument({
    title: shortened(versions.map(nameOf).join(", "), 200),
    kind: "Versions side by side",
    lead: html`<ul class="legend">
      ${versions.map(
        (version, hue) =>
          html`<li>
            ${chip({ name: nameOf(version), hue })}
            <span class="soft">${stateOf(version)}, ${version.versionId.slice(0, 12)}</span>
          </li>`,
      )}
    </ul>`,
    sections: [
      {
        id: "facts",
        title: "What differs",
        content: html`${
          differing.length === 0 ? html`<p>Nothing that was stated or measured differs.</p>` : shown.markup
        }${equal.length === 0 ? undefined : folded(`${equal.length} equal`, same.markup)}`,
        style: shown.style + same.style,
      },
      layerSection(versions, diffs),
      ...curveSections(
        versions.map((version) => ({ name: nameOf(version), measurements: version.measurements ?? [] })),
      ),
      tensorSection(versions, diffs),
    ],
    writtenAtMs,
  });
}

function factTable(
  id: string,
  caption: string,
  rows: readonly ComparedFact[],
  versions: readonly Described[],
): Piece {
  return table({
    id,
    caption,
    columns: [
      { title: "Fact", value: ({ name }: ComparedFact) => name, rem: 8, share: 1 },
      ...versions.map((version, at) => ({
        title: nameOf(version),
        value: ({ values }: ComparedFact): Part =>
          values[at] === values[0] ? values[at] : html`<span class="differs">${values[at] ?? "-"}</span>`,
        rem: 9,
        share: 2,
      })),
    ],
    rows,
  });
}

type Change = ModelDiff["changes"][number];

interface ComparedLayer {
  readonly name: string;
  readonly className: string;
  /** The changes in each version but the first. */
  readonly changes: readonly (readonly Change[])[];
}

/** The changes of each layer, or of each tensor where no network is known. */
function layersOf(versions: readonly Described[], diffs: readonly ModelDiff[]): readonly ComparedLayer[] {
  const layers = new Map<string, { className: string; changes: Change[][] }>();
  const put = (name: string, className: string): Change[][] => {
    const known = layers.get(name) ?? { className, changes: diffs.map((): Change[] => []) };
    layers.set(name, known);
    return known.changes;
  };
  const first = versions[0] as Described;
  for (const { name, className } of first.layers ?? []) put(name, className);
  diffs.forEach((diff, at) => {
    for (const change of diff.changes) {
      const side = change.kind === "added" ? versions[at + 1] : first;
      const layer = side?.layers?.[Number(change.path.split("/", 1)[0])];
      put(layer?.name ?? change.name, layer?.className ?? "tensor")[at]?.push(change);
    }
  });
  return [...layers].map(([name, layer]) => ({ name, ...layer }));
}

function layerSection(versions: readonly Described[], diffs: readonly ModelDiff[]): Section {
  const layers = layersOf(versions, diffs);
  const differing = layers.filter(({ changes }) => changes.some((each) => each.length > 0));
  const equal = layers.length - differing.length;
  const piece = table({
    id: "layers",
    caption: `Layers whose tensors differ from those of ${nameOf(versions[0] as Described)}`,
    columns: [
      { title: "Layer", value: ({ name }: ComparedLayer) => name, rem: 10, share: 2 },
      { title: "Class", value: ({ className }: ComparedLayer) => className, rem: 8, share: 1 },
      ...versions.slice(1).map((version, at) => ({
        title: nameOf(version),
        value: ({ changes }: ComparedLayer): Part => {
          const own = changes[at] ?? [];
          return own.length === 0 ? "equal" : chip({ name: changeText(own), hue: at + 1 });
        },
        rem: 9,
        share: 2,
      })),
    ],
    rows: differing,
    hasFilter: differing.length > 20,
  });
  return {
    id: "layers-that-differ",
    title: "Layers",
    content: html`${
      differing.length === 0 ? html`<p>All tensors are equal.</p>` : piece.markup
    }${equal === 0 ? undefined : html`<p class="soft">${equal} ${equal === 1 ? "layer has" : "layers have"} equal tensors, or none.</p>`}`,
    style: differing.length === 0 ? "" : piece.style,
  };
}

/** "2 changed, 1 added". */
function changeText(changes: readonly Change[]): string {
  const counts = new Map<string, number>();
  for (const { kind } of changes) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  return [...counts].map(([kind, count]) => `${count} ${kind}`).join(", ");
}

function tensorSection(versions: readonly Described[], diffs: readonly ModelDiff[]): Section {
  const pieces = diffs.map((diff, at) => tensorTable(diff, versions[at + 1] as Described, at));
  return {
    id: "tensors",
    title: "Tensors",
    content: pieces.map(({ markup }) => markup),
    style: pieces.map(({ style }) => style).join(""),
  };
}

function tensorTable(
  { changes, sameArchitecture, opaque, files }: ModelDiff,
  version: Described,
  at: number,
): Piece {
  if (files !== undefined) return { markup: html`<p>${nameOf(version)}: ${filesText(files)}</p>`, style: "" };
  const leafText = (leaf: Change["a"]): string | undefined =>
    leaf && `${leaf.dtype} [${leaf.shape.join(", ")}]`;
  const piece = table({
    id: `tensors-${at}`,
    caption: `Tensors of ${nameOf(version)} that differ from the first version's`,
    columns: [
      { title: "Tensor", value: ({ name }: Change) => name, rem: 12, share: 2 },
      { title: "Change", value: ({ kind }: Change) => kind, rem: 5 },
      { title: "Was", value: ({ a }: Change) => leafText(a), rem: 8, share: 1 },
      { title: "Is", value: ({ b }: Change) => leafText(b), rem: 8, share: 1 },
      { title: "Now called", value: ({ otherName }: Change) => otherName, rem: 8, share: 1 },
      { title: "By content", value: ({ relation }: Change) => relation, rem: 8, share: 1 },
    ],
    rows: changes,
  });
  const network = opaque ? "" : sameArchitecture ? ", same network" : ", another network";
  if (changes.length === 0)
    return { markup: html`<p>${nameOf(version)} has the same tensors${network}.</p>`, style: "" };
  return {
    markup: folded(
      `${nameOf(version)}: ${changes.length} ${changes.length === 1 ? "differs" : "differ"}${network}`,
      piece.markup,
    ),
    style: piece.style,
  };
}
