/** `stemma model transfer`: start a new architecture from the weights of its nearest ancestor. */
import { formatBytes, formatTime } from "../../../../shared/cli/output.js";
import { counted } from "../../../../shared/printable.js";
import { defined } from "../../../../shared/defined.js";
import { StemmaError } from "../../../../shared/errors.js";
import { listed, plain, type PlainContext, type Printed } from "../../plain-command.js";
import { readJson } from "../../read-json.js";
import { refuseExisting, writeStreamDurably } from "../../stream-file.js";
import { nameOf } from "../../version-text.js";

const transfer = plain("transfer", {
  name: "transfer",
  about: "start a new architecture from the weights of the model that shares the most layers with it",
  options: {
    arch: "<model.json> a TensorFlow.js model.json with its weightsManifest",
    file: "<file> where the tensors that it takes over are written, by its own names (safetensors)",
    minutes: "<n> how long the lease lasts (60)",
    rank: "<weights> choose by prefix=1,quality=0.5,age=0.1 (longest prefix, then quality, then newest)",
    force: "overwrite an existing file",
  },
  help: `
  stemma model transfer --arch candidate/model.json --file start.safetensors
  # train, with the listed layers frozen and these weights in them; then:
  stemma model import trained.safetensors --arch candidate/model.json --name NAME --lease ID

Until the import, or until the lease expires, nothing that the child takes over is collected,
even if the ancestor is retired meanwhile. stemma storage leases lists leases, and ends one.
`,
  run: async ({ arch, file, minutes, rank, force }, context): Promise<Printed> => {
    if (arch === undefined || file === undefined)
      throw new StemmaError(
        "USAGE",
        "Name the architecture with --arch MODEL.JSON and the file to write with --file.",
      );
    await refuseExisting(file, force);
    return start({ arch, file, minutes, rank, force }, context);
  },
});

async function start(
  {
    arch,
    file,
    minutes,
    rank,
    force,
  }: {
    readonly arch: string;
    readonly file: string;
    readonly minutes: number | undefined;
    readonly rank: string | undefined;
    readonly force: boolean;
  },
  { call, operations, fleet }: PlainContext,
): Promise<Printed> {
  const answer = await call("transfer", { modelJson: await readJson(arch), ...defined({ minutes, rank }) });
  const { nearest, lease, frozen } = answer;
  if (nearest === null || lease === null)
    return { data: answer, text: `none of ${answer.indexed} models has its first layers` };
  try {
    const stream = await (await operations()).recover({ fleet, model: nearest.versionId, lease: lease.id });
    await writeStreamDurably(stream, file, { overwrite: force }, () => undefined);
  } catch (error) {
    await call("endLease", { lease: lease.id });
    throw error;
  }
  const bytes = nearest.tensors.reduce((sum, tensor) => sum + tensor.bytes, 0);
  return {
    ...listed(nearest.tensors, {
      nameOf: (row) => row.name,
      columns: [
        { title: "TENSOR", value: (row) => row.childName },
        { title: "FROM", value: (row) => row.name },
        { title: "BYTES", value: (row) => formatBytes(row.bytes), align: "right" },
      ],
      empty: "no tensor can be taken over",
    }),
    data: { ...answer, file },
    names: [lease.id],
    text:
      `${file}: ${formatBytes(bytes)} from ${nameOf(nearest)}, ${nearest.layers} of ${counted(answer.layers, "layer")}\n` +
      `freeze: ${frozen.join(", ")}\n` +
      `lease ${lease.id} until ${formatTime(lease.expiresAtMs)}`,
  };
}

export const commands = [transfer];
