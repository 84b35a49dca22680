/** A layout before the tensors of the file are read: derived from the modules of PyTorch, or another file's. Pure. */
import { defined } from "../defined.js";
import { weightSlots } from "../model/architecture.js";
import type { DescribedModel } from "../model/model-json.js";
import { fileModules, type NamedHeader } from "./file-modules.js";
import type { Addend, WeightTensor } from "./layout.js";
import { matchModules } from "./match-modules.js";
import { pytorchModules } from "./pytorch-layers.js";

/** A tensor that is kept beside the weights, or, with `addend`, added to another one to make a weight. */
export type PlannedBeside = NamedHeader & Partial<Pick<Addend, "leaf" | "addend">>;
export type PlannedTensor = WeightTensor | PlannedBeside;

/** The tensors of a file, in its order, and sentences about the way in which they were found. */
export interface PlannedLayout {
  readonly tensors: readonly PlannedTensor[];
  readonly notes: readonly string[];
}

/** Makes the layout of a file's tensors for an architecture. */
export type Planner = (described: DescribedModel, tensors: readonly NamedHeader[]) => PlannedLayout;

/**
 * The layout of a state dict that PyTorch wrote.
 * @param options isProved: outputs are compared afterwards, so that an order may be tried
 * @throws ARCHITECTURE_MISMATCH where a layer has no module, or several may be it
 */
export function pytorchLayout(
  { architecture, names, layerPaths }: DescribedModel,
  tensors: readonly NamedHeader[],
  { isProved = false } = {},
): PlannedLayout {
  const titles = names.layers ?? layerPaths;
  const { modules, counters } = fileModules(tensors);
  const expected = pytorchModules(architecture, titles);
  const { matches, ordered } = matchModules({ architecture, titles, expected, modules, isProved });
  const leaves = new Map(
    weightSlots(architecture).map(({ layer, weight }, at) => [`${layer}/${weight}`, at]),
  );
  const found = new Map<string, PlannedTensor>();
  for (const counter of counters) found.set(counter.name, counter);
  for (const { expected, module } of matches)
    for (const { name, weight, order, part, addend } of expected.tensors) {
      const tensor = module.tensors.get(name) as NamedHeader;
      const { dtype, shape } = tensor;
      const leaf = leaves.get(`${expected.layer}/${weight}`) as number;
      found.set(tensor.name, { name: tensor.name, dtype, shape, leaf, ...defined({ order, part, addend }) });
    }
  const notes =
    ordered === 0 || isProved
      ? []
      : [`${ordered} modules have tensors like another's; their order is that of the numbers in their names`];
  return {
    tensors: tensors.map(({ name }) => found.get(name) as PlannedTensor),
    notes,
  };
}
