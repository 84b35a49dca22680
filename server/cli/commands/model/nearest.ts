/** `stemma model nearest`: the stored model with which an architecture has the most layers in common. */
import { StemmaError } from "../../../../shared/errors.js";
import { formatBytes } from "../../../../shared/cli/output.js";
import { counted } from "../../../../shared/printable.js";
import type { NearestModel } from "../../../interface/api/models/nearest-schemas.js";
import { listed, plain } from "../../plain-command.js";
import { readJson } from "../../read-json.js";
import { nameOf } from "../../version-text.js";

const nearest = plain("nearest", {
  name: "nearest",
  about: "find the model whose layers this one shares the longest, to start from its weights",
  takes: { model: "a model of the fleet, which is not looked at itself" },
  options: {
    rank: "<weights> choose by prefix=1,quality=0.5,age=0.1 (longest prefix, then quality, then newest)",
    arch: "<model.json> instead of a model: a TensorFlow.js model.json with its weightsManifest",
  },
  help: `
Layers are shared from the inputs on: a layer counts where it has the same settings
and everything before it is shared too. Names, seeds and initialisers do not matter,
and neither does another head.

  stemma model nearest detector:3
  stemma model nearest --arch candidate/model.json
`,
  input: async ({ model, arch }) => {
    if ((model === undefined) === (arch === undefined))
      throw new StemmaError("USAGE", "Name a model, or an architecture with --arch MODEL.JSON.");
    return arch === undefined ? {} : { modelJson: await readJson(arch) };
  },
  print: (answer) => ({
    ...listed(answer.nearest?.tensors ?? [], {
      nameOf: (row) => row.name,
      columns: [
        { title: "PATH", value: (row) => row.path },
        { title: "ITS TENSOR", value: (row) => row.name },
        { title: "BYTES", value: (row) => formatBytes(row.bytes), align: "right" },
      ],
      empty: "no tensor can be taken over",
    }),
    data: answer,
    names: answer.nearest === null ? [] : [answer.nearest.versionId],
    text: describe(answer),
  }),
});

function describe({ nearest, layers, indexed }: NearestModel): string {
  if (nearest === null) return `none of ${indexed} models has the first of these ${layers} layers`;
  const bytes = nearest.tensors.reduce((sum, tensor) => sum + tensor.bytes, 0);
  const tensors = counted(nearest.tensors.length, "tensor");
  return (
    `${nameOf(nearest)} has ${nearest.layers} of these ${layers} layers, and ${nearest.ofLayers} in all: ` +
    `${tensors}, ${formatBytes(bytes)} to start from; ${counted(indexed, "model")} compared`
  );
}

export const commands = [nearest];
