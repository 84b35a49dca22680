/** `stemma model nearest`: the stored model with which an architecture has the most layers in common. */
import type { Command } from "commander";
import { StemmaError } from "../../../shared/errors.js";
import { formatBytes } from "../../../shared/cli/output.js";
import type { NearestModel } from "../../interface/api/models/nearest-schemas.js";
import { withContext } from "../context.js";
import { readJson } from "../read-json.js";
import { nameOf } from "../version-text.js";

const help = `
Layers are shared from the inputs on: a layer counts where it has the same settings
and everything before it is shared too. Names, seeds and initialisers do not matter,
and neither does another head.

  stemma model nearest detector:3
  stemma model nearest --arch candidate/model.json
`;

export function addModelNearestCommand(parent: Command): void {
  parent
    .command("nearest")
    .argument("[model]", "a model of the fleet, which is not looked at itself")
    .description("find the model whose layers this one shares the longest, to start from its weights")
    .option("--arch <model.json>", "instead of a model: a TensorFlow.js model.json with its weightsManifest")
    .addHelpText("after", help)
    .action(async (reference: string | undefined, { arch }: { readonly arch?: string }, command: Command) => {
      await withContext(command, async ({ output, operations, options }) => {
        if ((reference === undefined) === (arch === undefined))
          throw new StemmaError("USAGE", "Name a model, or an architecture with --arch MODEL.JSON.");
        const answer = await (
          await operations()
        ).nearest({
          fleet: options.fleet,
          ...(arch === undefined ? { model: reference } : { modelJson: await readJson(arch) }),
        });
        const rows = answer.nearest?.tensors ?? [];
        output.print({
          data: answer,
          names: answer.nearest === null ? [] : [answer.nearest.versionId],
          table: {
            rows,
            columns: [
              { title: "PATH", value: (row) => row.path },
              { title: "ITS TENSOR", value: (row) => row.name },
              { title: "BYTES", value: (row) => formatBytes(row.bytes), align: "right" },
            ],
            empty: "no tensor can be taken over",
          },
          text: describe(answer),
        });
      });
    });
}

function describe({ nearest, layers, indexed }: NearestModel): string {
  if (nearest === null) return `none of ${indexed} models has the first of these ${layers} layers`;
  const bytes = nearest.tensors.reduce((sum, tensor) => sum + tensor.bytes, 0);
  const tensors = nearest.tensors.length === 1 ? "1 tensor" : `${nearest.tensors.length} tensors`;
  return (
    `${nameOf(nearest)} has ${nearest.layers} of these ${layers} layers, and ${nearest.ofLayers} in all: ` +
    `${tensors}, ${formatBytes(bytes)} to start from; ${indexed} models compared`
  );
}
