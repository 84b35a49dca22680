/** A layout before the tensors of the file are read, derived from the modules of PyTorch. Pure. */
import { weightSlots } from "../model/architecture.js";
import type { DescribedModel } from "../model/model-json.js";
import { fileModules, type NamedHeader } from "./file-modules.js";
import type { WeightTensor } from "./layout.js";
import { matchModules } from "./match-modules.js";
import { pytorchModules } from "./pytorch-layers.js";

/** A tensor that is kept beside the weights. */
export interface PlannedBeside extends NamedHeader {
  /** True where the weights are right only if it is zero. */
  readonly isZero: boolean;
}

/** The tensors of a file, in its order, and sentences about the way in which they were found. */
export interface PlannedLayout {
  readonly tensors: readonly (WeightTensor | PlannedBeside)[];
  readonly notes: readonly string[];
}

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
  const found = new Map<string, WeightTensor | PlannedBeside>();
  for (const counter of counters) found.set(counter.name, { ...counter, isZero: false });
  for (const { expected, module } of matches)
    for (const { name, weight, order } of expected.tensors) {
      const tensor = module.tensors.get(name) as NamedHeader;
      const { dtype, shape } = tensor;
      const header = { name: tensor.name, dtype, shape };
      if (weight === undefined) found.set(tensor.name, { ...header, isZero: true });
      else
        found.set(tensor.name, {
          ...header,
          leaf: leaves.get(`${expected.layer}/${weight}`) as number,
          ...(order === undefined ? {} : { order }),
        });
    }
  const notes =
    ordered === 0 || isProved
      ? []
      : [`${ordered} modules have tensors like another's; their order is that of the numbers in their names`];
  return {
    tensors: tensors.map(({ name }) => found.get(name) as WeightTensor | PlannedBeside),
    notes,
  };
}
