/** `stemma desc`: a version with its network, its footprint, its hyper-parameters, files and measurements. */
import type { Column } from "../../../shared/cli/output.js";
import { formatBytes } from "../../../shared/cli/output.js";
import { readModelJson } from "../../../shared/model/model-json.js";
import { listed, plain, type PlainContext, type Printed } from "../plain-command.js";
import { nameOf, savedOf, stateOf } from "../version-text.js";
import { coursesOf } from "./metric-course.js";
import { currentOfFolder, type Described } from "./current-version.js";
import { factsOf, type Fact } from "./facts-of-version.js";
import { bytesOfANumber, footprintOf, type LayerFootprint } from "./footprint.js";
import { pageOptions, refuseWithPage, writePage } from "../page/write-page.js";
import { verb } from "./verb.js";

/** Relatives of a version that its page shows. */
const maxFamily = 500;

const options = {
  show: "<file> print this file of the version, as it was committed, and nothing else",
  ...pageOptions,
} as const;

export const define = verb(
  plain(null, {
    name: "desc",
    takes: { model: "[model] name, name:version, name:tag or id; without it the current version" },
    options,
    help: `
OPERATIONS: multiplications with the kernels for one sample. ACTIVATIONS: numbers that the
layer gives for one sample. MEMORY: these and the parameters, 4 bytes each. "-": it depends
on the data.

  stemma desc curve:2
  stemma desc curve:2 --show train.py > earlier.py
  stemma desc curve:2 --html curve.html
`,
    run: async ({ model, show, html, force }, context) => {
      const reference = model ?? (await currentOfFolder(context.call));
      if (html !== undefined) {
        refuseWithPage({ show });
        return await writePage(html, { force }, () => pageOf(context.call, reference));
      }
      if (show !== undefined) return await showFile(context, reference, show);
      return await describe(context.call, reference);
    },
  }),
);

async function showFile(
  { call, output }: PlainContext,
  model: string,
  file: string,
): Promise<Printed | undefined> {
  const found = await call("attachment", { model, file });
  if (output.form !== "table") return { data: found, names: [found.name] };
  const bytes = Buffer.from(found.base64, "base64");
  // A file of somebody else could steer a terminal.
  if (process.stdout.isTTY) return { data: found, text: bytes.toString("utf8"), isVerbatim: true };
  await new Promise<void>((resolve, reject) => {
    process.stdout.write(bytes, (error) => (error == null ? resolve() : reject(error)));
  });
  return undefined;
}

async function describe(call: PlainContext["call"], model: string): Promise<Printed> {
  const described = await call("model", { model });
  const { layers } = await networkOf(call, described);
  const facts: readonly Fact[] = [
    ["version", `${nameOf(described)} (${described.versionId.slice(0, 12)}), ${stateOf(described)}`],
    ["saved", savedOf(described)],
    ...factsOf(described),
    ...totalsOf(layers),
  ];
  const width = Math.max(...facts.map(([name]) => name.length));
  const text = facts.map(([name, value]) => `${name.padEnd(width)}  ${value}`).join("\n");
  const data = { ...described, footprint: layers ?? null, courses: coursesOf(described.measurements ?? []) };
  const names = [described.versionId];
  if (layers !== undefined)
    return { ...listed(layers, { nameOf: ({ name }) => name, columns: layerColumns }), data, names, text };
  return {
    ...listed(described.file === undefined ? described.leaves : [], {
      nameOf: ({ name }) => name,
      columns: [
        { title: "TENSOR", value: ({ name }) => name },
        { title: "TYPE", value: ({ dtype }) => dtype },
        { title: "SHAPE", value: ({ shape }) => `[${shape.join(", ")}]` },
        { title: "BYTES", value: ({ bytes }) => formatBytes(bytes), align: "right" },
      ],
      empty: described.file === undefined ? "no tensors" : "a file that is kept as it is",
    }),
    data,
    names,
    text,
  };
}

type NamedLayer = LayerFootprint & { readonly name: string };

interface DescribedNetwork {
  /** The layers; undefined where no network is known, or it is not stored any more. */
  readonly layers: readonly NamedLayer[] | undefined;
  /** The numbers of the layers that each reads. */
  readonly inputs: readonly (readonly number[])[];
}

async function networkOf(
  call: PlainContext["call"],
  { versionId, layers, state }: Described,
): Promise<DescribedNetwork> {
  if (layers === undefined || state === "retired") return { layers: undefined, inputs: [] };
  const json = await call("modelJson", { model: versionId });
  const { architecture } = readModelJson(Buffer.from(JSON.stringify(json)));
  return {
    layers: footprintOf(architecture).map((layer, at) => ({ ...layer, name: layers[at]?.name ?? `${at}` })),
    inputs: architecture.layers.map(({ inputs }) => inputs.map(({ layer }) => layer)),
  };
}

async function pageOf(call: PlainContext["call"], model: string): Promise<string> {
  const described = await call("model", { model });
  const { layers, inputs } = await networkOf(call, described);
  const family = await call("lineage", { model: described.versionId, descendants: true, limit: maxFamily });
  const { versionPage } = await import("../page/version-page.js");
  return versionPage({
    described,
    layers: layers?.map((layer, at) => ({ ...layer, inputs: inputs[at] ?? [] })),
    totals: totalsOf(layers),
    family,
    writtenAtMs: Date.now(),
  });
}

const memoryOf = ({ activations, parameters }: LayerFootprint): number | null =>
  activations === null ? null : bytesOfANumber * (activations + parameters);

const layerColumns: readonly Column<NamedLayer>[] = [
  { title: "LAYER", value: ({ name }) => name },
  { title: "CLASS", value: ({ className }) => className },
  { title: "SHAPE", value: ({ shape }) => shape && `[${shape.map((extent) => extent ?? "?").join(", ")}]` },
  { title: "PARAMETERS", value: ({ parameters }) => parameters, align: "right" },
  { title: "OPERATIONS", value: ({ operations }) => operations, align: "right" },
  { title: "ACTIVATIONS", value: ({ activations }) => activations, align: "right" },
  {
    title: "MEMORY",
    value: (layer) => {
      const bytes = memoryOf(layer);
      return bytes === null ? null : formatBytes(bytes);
    },
    align: "right",
  },
];

function totalsOf(layers: readonly NamedLayer[] | undefined): readonly Fact[] {
  if (layers === undefined) return [];
  const total = (values: readonly (number | null)[]): string =>
    values.includes(null)
      ? `at least ${(values as number[]).reduce((all, each) => all + (each ?? 0), 0)}`
      : String((values as number[]).reduce((all, each) => all + each, 0));
  return [
    ["parameters", total(layers.map(({ parameters }) => parameters))],
    ["operations", `${total(layers.map(({ operations }) => operations))} a sample`],
    ["activations", `${total(layers.map(({ activations }) => activations))} a sample`],
  ];
}
