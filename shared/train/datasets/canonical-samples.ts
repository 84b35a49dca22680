/**
 * The canonical bytes of a sample set, which do not depend on the file format or the device that the samples came
 * from. Their SHA-256 identifies the data of a training; stored as an object, they have that hash as their id. All
 * numbers are little-endian; samples are float32.
 *
 * A set with one unnamed label: "stemma-dataset-1\0" ‖ task u8 (0 regression, 1 classification) ‖ rank u8 ‖ dimensions
 * u32 ‖ target size u32 ‖ classes u32 ‖ parts. Any other: "stemma-dataset-2\0" ‖ header length u32 ‖ header (JSON of
 * inputShape and outputs) ‖ parts. Parts are, for train, validation, held out: count u32 ‖ inputs ‖ targets.
 */
import { createHash } from "node:crypto";
import { StemmaError } from "../../errors.js";
import type { Hash } from "../../tensor/tensor.js";
import { sampleLength, type SamplePart, type SampleSet } from "./dataset.js";
import { checkedSet } from "./sample-set.js";
import type { TargetForm } from "./target-form.js";

const partNames = ["train", "validation", "heldOut"] as const;
const magics = { single: "stemma-dataset-1\0", general: "stemma-dataset-2\0" } as const;
const maxHeaderBytes = 64 * 1024;
/** Numbers in one piece of the stream. */
const pieceValues = 256 * 1024;

/** The canonical bytes, in pieces of at most 1 MiB. */
export function* canonicalSamples(set: SampleSet): Generator<Uint8Array> {
  yield headerOf(set);
  for (const name of partNames) {
    const { count, inputs, targets } = set[name];
    yield u32(count);
    for (const values of [inputs, targets])
      for (let at = 0; at < values.length; at += pieceValues)
        yield littleEndian(values.subarray(at, at + pieceValues));
  }
}

/** The hash of the canonical bytes: the id of the data. */
export function sampleSetHash(set: SampleSet): Hash {
  const hash = createHash("sha256");
  for (const piece of canonicalSamples(set)) hash.update(piece);
  return hash.digest("hex") as Hash;
}

function headerOf({ task, inputShape, targetSize, classes, outputs }: SampleSet): Uint8Array {
  if (task !== "general")
    return Buffer.concat([
      Buffer.from(magics.single),
      Uint8Array.of(task === "classification" ? 1 : 0, inputShape.length),
      ...[...inputShape, targetSize, classes].map(u32),
    ]);
  const header = Buffer.from(
    JSON.stringify({
      inputShape,
      outputs: outputs?.map(({ name, kind, shape, classes: count }) => ({
        name,
        kind,
        shape,
        classes: count,
      })),
    }),
  );
  return Buffer.concat([Buffer.from(magics.general), u32(header.length), header]);
}

function u32(value: number): Uint8Array {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

function littleEndian(values: Float32Array): Uint8Array {
  const bytes = new Uint8Array(values.length * 4);
  const view = new DataView(bytes.buffer);
  for (let index = 0; index < values.length; index++)
    view.setFloat32(index * 4, values[index] as number, true);
  return bytes;
}

/**
 * Reads a set from its canonical bytes.
 * @throws DATASET_MALFORMED
 */
export function sampleSetOfBytes(bytes: Uint8Array, where: string): SampleSet {
  const reader = new ByteReader(bytes, where);
  const magic = reader.text(magics.single.length);
  const form =
    magic === magics.single
      ? singleForm(reader)
      : magic === magics.general
        ? generalForm(reader)
        : reader.refuse("it does not begin as canonical samples do");
  const length = sampleLength(form);
  const [train, validation, heldOut] = partNames.map((): SamplePart => {
    const count = reader.u32();
    return {
      count,
      inputs: reader.floats(count * length),
      targets: reader.floats(count * form.targetSize),
    };
  }) as [SamplePart, SamplePart, SamplePart];
  reader.end();
  return checkedSet({
    ...form,
    train,
    validation,
    heldOut,
    withoutParts: [
      ...(validation.count === 0 ? (["validation"] as const) : []),
      ...(heldOut.count === 0 ? (["heldOut"] as const) : []),
    ],
    description: { reader: "canonical", format: magic.slice(0, -1) },
  });
}

type SetForm = Pick<SampleSet, "task" | "inputShape" | "targetSize" | "classes" | "outputs">;

function singleForm(reader: ByteReader): SetForm {
  const [task = 0, rank = 0] = reader.bytes(2);
  if (rank > 8) reader.refuse(`its inputs have ${rank} dimensions`);
  const inputShape = Array.from({ length: rank }, () => reader.u32());
  return {
    task: task === 1 ? "classification" : "regression",
    inputShape,
    targetSize: reader.u32(),
    classes: reader.u32(),
  };
}

function generalForm(reader: ByteReader): SetForm {
  const length = reader.u32();
  if (length > maxHeaderBytes) reader.refuse(`its header has ${length} bytes`);
  const header = JSON.parse(reader.text(length)) as {
    readonly inputShape: readonly number[];
    readonly outputs: readonly TargetForm[];
  };
  return {
    task: "general",
    inputShape: header.inputShape,
    targetSize: header.outputs.reduce((sum, { shape }) => sum + shape.reduce((a, b) => a * b, 1), 0),
    classes: 0,
    outputs: header.outputs,
  };
}

class ByteReader {
  #at = 0;

  constructor(
    private readonly source: Uint8Array,
    private readonly where: string,
  ) {}

  refuse(problem: string): never {
    throw new StemmaError(
      "DATASET_MALFORMED",
      `${this.where} cannot be read as stored samples: ${problem}. Fetch the data again.`,
      { where: this.where },
    );
  }

  bytes(length: number): Uint8Array {
    const end = this.#at + length;
    if (end > this.source.length)
      this.refuse(`it ends after ${this.source.length} bytes, and at least ${end} are needed`);
    const bytes = this.source.subarray(this.#at, end);
    this.#at = end;
    return bytes;
  }

  u32(): number {
    const bytes = this.bytes(4);
    return new DataView(bytes.buffer, bytes.byteOffset, 4).getUint32(0, true);
  }

  text(length: number): string {
    return Buffer.from(this.bytes(length)).toString("utf8");
  }

  floats(count: number): Float32Array {
    const bytes = this.bytes(4 * count);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    return Float32Array.from({ length: count }, (_, index) => view.getFloat32(index * 4, true));
  }

  end(): void {
    if (this.#at !== this.source.length)
      this.refuse(`${this.source.length - this.#at} bytes follow its last sample`);
  }
}
