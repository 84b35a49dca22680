/** The page of one version: network, learning curves, hyper-parameters, lineage, provenance. Pure. */
import { formatBytes } from "../../../shared/cli/output.js";
import type { LineageGraph } from "../../interface/api/models/lineage-definitions.js";
import { nameOf, savedOf, stateOf } from "../version-text.js";
import { detailsOf, type Described } from "../repository/current-version.js";
import { factsOf, type Fact } from "../repository/facts-of-version.js";
import { bytesOfANumber, type LayerFootprint } from "../repository/footprint.js";
import { coursesOf } from "../repository/metric-course.js";
import { curveSections } from "./curves-of-versions.js";
import { definitions, folded, pageDocument, sectionOf, type Section } from "./document.js";
import { html, type Part } from "./markup.js";
import { bar, chip, ownersOf, ownerShares, type Owner } from "./owner-colours.js";
import { table, type Piece } from "./table.js";
import { tree } from "./tree.js";
import { shortFigure, versionList } from "./version-list.js";

export interface PageLayer extends LayerFootprint {
  readonly name: string;
  /** The numbers of the layers whose outputs it reads. */
  readonly inputs: readonly number[];
}

export interface VersionPage {
  readonly described: Described;
  /** The layers; undefined where no network is known. */
  readonly layers: readonly PageLayer[] | undefined;
  readonly totals: readonly Fact[];
  readonly family: LineageGraph;
  readonly writtenAtMs: number;
}

export function versionPage({ described, layers, totals, family, writtenAtMs }: VersionPage): string {
  const { measurements = [], metadata = {} } = described;
  const { message, parameters } = detailsOf(metadata);
  const owners = ownersOf(described.leaves);
  return pageDocument({
    title: nameOf(described),
    kind: "Model version",
    lead: html`${message === undefined ? undefined : html`<p class="message">${message}</p>`}
      <p class="soft">
        ${stateOf(described)}, saved ${savedOf(described)}, <code>${described.versionId}</code>
      </p>`,
    sections: [
      {
        id: "facts",
        title: "Facts",
        content: [
          definitions(tilesOf(described, totals), "tiles"),
          definitions(plainFacts(described, parameters)),
        ],
      },
      ...(layers === undefined
        ? [tensorSection(described, owners)]
        : [networkSection(layers, described, owners)]),
      ...curveSections([{ name: nameOf(described), measurements }]),
      ...parameterSections(parameters),
      lineageSection(described, family),
      provenanceSection(described),
    ],
    writtenAtMs,
  });
}

const aSample = " a sample";

function tilesOf(described: Described, totals: readonly Fact[]): readonly Fact[] {
  const { tensorBytes, leaves, layers, measurements = [] } = described;
  const courses = coursesOf(measurements)
    .filter(({ name }) => /loss/.test(name))
    .slice(0, 2);
  return [
    ...(layers === undefined ? [] : [["layers", String(layers.length)] as const]),
    ["tensors", String(leaves.length)],
    ["size", formatBytes(tensorBytes)],
    ...totals.map(([name, value]): Fact =>
      value.endsWith(aSample) ? [name + aSample, value.slice(0, -aSample.length)] : [name, value],
    ),
    ...courses.map(({ name, last }): Fact => [`${name}, last`, shortFigure(last.value)]),
  ];
}

/** The facts that have no section or place of their own. */
function plainFacts(described: Described, parameters: Readonly<Record<string, unknown>>): readonly Fact[] {
  const elsewhere = new Set([
    ...["message", "layers", "size"],
    ...Object.keys(parameters),
    ...coursesOf(described.measurements ?? []).map(({ name }) => name),
  ]);
  return factsOf(described).filter(([name]) => !elsewhere.has(name));
}

function networkSection(
  layers: readonly PageLayer[],
  described: Described,
  owners: ReadonlyMap<string, Owner>,
): Section {
  const readers: number[][] = layers.map(() => []);
  layers.forEach(({ inputs }, at) => {
    for (const input of inputs) if (input < at) readers[input]?.push(at);
  });
  const owned = ownersByLayer(described, owners);
  const most = (of: (layer: PageLayer) => number | null): number =>
    layers.reduce((greatest, layer) => Math.max(greatest, of(layer) ?? 0), 0);
  const mostParameters = most(({ parameters }) => parameters);
  const mostActivations = most(({ activations }) => activations);
  const rows = layers.map((layer, at) => ({ ...layer, owners: owned.get(at) ?? [] }));
  const piece = table({
    id: "layers",
    caption:
      "Layers in the order in which they compute; lines lead to the layers that read them. Figures are for one sample.",
    columns: [
      { title: "Layer", value: ({ name }) => name, rem: 10, share: 3 },
      { title: "Class", value: ({ className }) => className, rem: 8, share: 1 },
      { title: "Output shape", value: shapeText, rem: 8, share: 1 },
      {
        title: "Parameters",
        value: ({ parameters }) => [String(parameters), bar(parameters, mostParameters) ?? ""],
        rem: 6,
        align: "right",
      },
      { title: "Operations", value: ({ operations }) => operations ?? undefined, rem: 6, align: "right" },
      {
        title: "Activations",
        value: ({ activations }) =>
          activations === null ? undefined : [String(activations), bar(activations, mostActivations) ?? ""],
        rem: 6,
        align: "right",
      },
      { title: "Memory", value: memoryText, rem: 5, align: "right" },
      {
        title: "Contributed by",
        value: ({ owners: own }) => (own.length === 0 ? undefined : own.map(chip)),
        rem: 8,
        share: 2,
      },
    ],
    rows,
    lanes: {
      leadsTo: readers,
      dotOf: ({ owners: [first] }) => ({ hue: first?.hue, isHollow: first === undefined }),
      isColoured: false,
    },
    hasFilter: true,
  });
  const tensors = tensorTable(described, owners);
  return {
    id: "network",
    title: "Network",
    content: html`<p class="soft">Bytes of tensors by the version that last changed them:</p>
      ${ownerShares(owners)}${piece.markup}${folded(`Tensors (${described.leaves.length})`, tensors.markup)}`,
    style: piece.style + tensors.style,
  };
}

/** The owners of each layer's tensors, that of its first tensor first. */
function ownersByLayer(
  { leaves }: Described,
  owners: ReadonlyMap<string, Owner>,
): ReadonlyMap<number, readonly Owner[]> {
  const found = new Map<number, Owner[]>();
  for (const { path, owner } of leaves) {
    const layer = Number(path.split("/", 1)[0]);
    const [own, known] = [owners.get(owner.versionId), found.get(layer) ?? []];
    if (own !== undefined && !known.includes(own)) found.set(layer, [...known, own]);
  }
  return found;
}

function shapeText({ shape }: LayerFootprint): string | undefined {
  return shape && `[${shape.map((extent) => extent ?? "?").join(", ")}]`;
}

function memoryText({ activations, parameters }: LayerFootprint): string | undefined {
  return activations === null ? undefined : formatBytes(bytesOfANumber * (activations + parameters));
}

function tensorTable({ leaves }: Described, owners: ReadonlyMap<string, Owner>): Piece {
  return table({
    id: "tensor-list",
    caption: "Tensors with the version that last changed each",
    columns: [
      { title: "Tensor", value: ({ name }) => name, rem: 12, share: 3 },
      { title: "Type", value: ({ dtype }) => dtype, rem: 4 },
      { title: "Shape", value: ({ shape }) => `[${shape.join(", ")}]`, rem: 8, share: 1 },
      { title: "Size", value: ({ bytes }) => formatBytes(bytes), rem: 5, align: "right" },
      {
        title: "Contributed by",
        value: ({ owner }): Part => {
          const known = owners.get(owner.versionId);
          return known && chip(known);
        },
        rem: 8,
        share: 2,
      },
    ],
    rows: leaves,
    hasFilter: true,
  });
}

function tensorSection(described: Described, owners: ReadonlyMap<string, Owner>): Section {
  const why = html`<p class="soft">The network is not known, or not stored any more.</p>`;
  return sectionOf("tensors", "Tensors", tensorTable(described, owners), [why, ownerShares(owners) ?? ""]);
}

function parameterSections(parameters: Readonly<Record<string, unknown>>): readonly Section[] {
  const entries = Object.entries(parameters);
  if (entries.length === 0) return [];
  return [
    {
      id: "hyper-parameters",
      title: "Hyper-parameters",
      content: definitions(entries.map(([name, value]) => [name, String(value)])),
    },
  ];
}

function lineageSection(
  { versionId, bases, derived }: Described,
  { versions, total }: LineageGraph,
): Section {
  const names = (of: readonly { readonly name: string; readonly version: number }[]): string =>
    of.length === 0 ? "none" : of.map(nameOf).join(", ");
  const piece = versionList(versions, {
    id: "family",
    caption:
      versions.length < total
        ? `The newest ${versions.length} of ${total}: this version, its ancestors and its descendants`
        : "This version, its ancestors and its descendants, newest first",
    marked: versionId,
    hasFilter: versions.length > 20,
  });
  return sectionOf(
    "lineage",
    "Lineage",
    piece,
    definitions([
      ["trained from", names(bases)],
      ["derived from it", names(derived)],
    ]),
  );
}

function provenanceSection({ provenance, environment }: Described): Section {
  return {
    id: "provenance",
    title: "Provenance",
    content: html`${
      provenance === undefined
        ? html`<p class="soft">It is not recorded how this version was trained.</p>`
        : tree(provenance)
    }${Object.keys(environment).length === 0 ? undefined : folded("Environment", tree(environment))}`,
  };
}
