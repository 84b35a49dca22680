/** Derived models as an answer tells them. Pure. */
import type { DerivedModel as Answer } from "../../../interface/api/models/query-definitions.js";
import type { Derivation } from "./derive-models.js";

export function derivedModelOf({ row, name, result }: Derivation): Answer {
  const { versionId, name: sourceName, version } = row;
  const of = { source: { versionId, name: sourceName, version }, name };
  if ("reason" in result) return { ...of, reason: result.reason };
  const { architecture, names, added, removed, reshaped, extraInputs, drawers } = result;
  const inputs = architecture.layers.flatMap(({ className, config }, at) => {
    if (className !== "InputLayer") return [];
    const inputName = names[at] ?? "";
    const shape = (config["batch_input_shape"] as readonly (number | null)[]).slice(1);
    return [{ name: inputName, shape, isExtra: extraInputs.has(inputName) }];
  });
  const drawn = drawers.filter((each) => each !== undefined).length;
  return {
    ...of,
    network: {
      layers: architecture.layers.length,
      added,
      removed,
      reshaped,
      inputs,
      inherited: { tensors: drawers.length - drawn, bytes: result.inheritedBytes },
      drawn: { tensors: drawn, bytes: result.drawnBytes },
    },
  };
}
