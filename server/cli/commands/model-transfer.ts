/** `stemma model transfer`: start a new architecture from the weights of its nearest ancestor. */
import type { Command } from "commander";
import { formatBytes, formatTime } from "../../../shared/cli/output.js";
import { StemmaError } from "../../../shared/errors.js";
import { lineageOperations } from "../../interface/api/models/lineage-definitions.js";
import { withContext, type CommandContext } from "../context.js";
import { inputOption } from "../input-option.js";
import { readJson } from "../read-json.js";
import { refuseExisting, writeStreamDurably } from "../stream-file.js";
import { nameOf } from "../version-text.js";

interface TransferChoices {
  readonly arch?: string;
  readonly file?: string;
  readonly minutes?: number;
  readonly end?: string;
  readonly force: boolean;
}

const help = `
  stemma model transfer --arch candidate/model.json --file start.safetensors
  # train, with the listed layers frozen and these weights in them; then:
  stemma model import trained.safetensors --arch candidate/model.json --name NAME --lease ID

Until the import, or until the lease expires, nothing that the child takes over is collected,
even if the ancestor is retired meanwhile.
`;

export function addModelTransferCommand(model: Command): void {
  model
    .command("transfer")
    .description("start a new architecture from the weights of the model that shares the most layers with it")
    .option("--arch <model.json>", "a TensorFlow.js model.json with its weightsManifest")
    .option(
      "--file <file>",
      "where the tensors that it takes over are written, by its own names (safetensors)",
    )
    .addOption(
      inputOption(
        "--minutes <n>",
        lineageOperations.transfer.body.shape.minutes,
        "how long the lease lasts (60)",
      ),
    )
    .option("--force", "overwrite an existing file", false)
    .option("--end <lease>", "instead: end a lease before it expires")
    .addHelpText("after", help)
    .action(async (choices: TransferChoices, command: Command) =>
      withContext(command, (context) =>
        choices.end === undefined ? startCommand(choices, context) : endCommand(choices.end, context),
      ),
    );
}

async function endCommand(lease: string, { output, operations, options }: CommandContext): Promise<void> {
  const answer = await (await operations()).endTransfer({ fleet: options.fleet, lease });
  output.print({ data: answer, names: [lease], text: `ended the lease ${lease}` });
}

async function startCommand(
  { arch, file, minutes, force }: TransferChoices,
  { output, operations, options }: CommandContext,
): Promise<void> {
  if (arch === undefined || file === undefined)
    throw new StemmaError(
      "USAGE",
      "Name the architecture with --arch MODEL.JSON and the file to write with --file.",
    );
  await refuseExisting(file, force);
  const { fleet } = options;
  const opened = await operations();
  const answer = await opened.transfer({ fleet, modelJson: await readJson(arch), minutes });
  const { nearest, lease, frozen } = answer;
  if (nearest === null || lease === null)
    return output.print({ data: answer, text: `none of ${answer.indexed} models has its first layers` });
  try {
    const stream = await opened.recover({ fleet, model: nearest.versionId, lease: lease.id });
    await writeStreamDurably(stream, file, { overwrite: force }, () => undefined);
  } catch (error) {
    await opened.endTransfer({ fleet, lease: lease.id });
    throw error;
  }
  const bytes = nearest.tensors.reduce((sum, tensor) => sum + tensor.bytes, 0);
  output.print({
    data: { ...answer, file },
    names: [lease.id],
    table: {
      rows: nearest.tensors,
      columns: [
        { title: "TENSOR", value: (row) => row.childName },
        { title: "FROM", value: (row) => row.name },
        { title: "BYTES", value: (row) => formatBytes(row.bytes), align: "right" },
      ],
      empty: "no tensor can be taken over",
    },
    text:
      `${file}: ${formatBytes(bytes)} from ${nameOf(nearest)}, ${nearest.layers} of ${answer.layers} layers\n` +
      `freeze: ${frozen.join(", ")}\n` +
      `lease ${lease.id} until ${formatTime(lease.expiresAtMs)}`,
  });
}
