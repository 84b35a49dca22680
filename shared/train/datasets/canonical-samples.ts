/**
 * The canonical bytes of a sample set, which do not depend on the file format or the device that the samples came
 * from. Their SHA-256 identifies the data of a training; stored as an object, they have that hash as their id. All
 * numbers are little-endian; samples are float32.
 *
 * A set with one unnamed label: "stemma-dataset-1\0" ‖ task u8 (0 regression, 1 classification) ‖ rank u8 ‖ dimensions
 * u32 ‖ target size u32 ‖ classes u32 ‖ parts. Any other: "stemma-dataset-2\0" ‖ header length u32 ‖ header (JSON of
 * inputShape and outputs) ‖ parts. Parts are, for train, validation, held out: count u32 ‖ inputs ‖ targets.
 *
 * A set with weights or metadata: "stemma-dataset-3\0" ‖ header length u32 ‖ header (JSON of task, inputShape,
 * targetSize, classes, outputs, weights and metadata) ‖ parts, in which follow, where the header has them, weights as
 * float32, and for each sample: length u32 ‖ JSON of its metadata, a list of texts.
 */
import { createHash } from "node:crypto";
import * as z from "zod";
import { StemmaError } from "../../errors.js";
import type { Hash } from "../../tensor/tensor.js";
import { sampleLength, type SamplePart, type SampleSet } from "./dataset.js";
import { checkedSet } from "./sample-set.js";
import { targetKinds, type TargetForm } from "./target-form.js";

const partNames = ["train", "validation", "heldOut"] as const;
const magics = {
  single: "stemma-dataset-1\0",
  general: "stemma-dataset-2\0",
  extended: "stemma-dataset-3\0",
} as const;
const maxHeaderBytes = 64 * 1024;
/** Numbers in one piece of the stream. */
const pieceValues = 256 * 1024;

/** The canonical bytes, in pieces of at most 1 MiB. */
export function* canonicalSamples(set: SampleSet): Generator<Uint8Array> {
  yield headerOf(set);
  for (const name of partNames) {
    const { count, inputs, targets, weights, metadata } = set[name];
    yield u32(count);
    for (const values of [inputs, targets, ...(weights ? [weights] : [])])
      for (let at = 0; at < values.length; at += pieceValues)
        yield littleEndian(values.subarray(at, at + pieceValues));
    yield* metadataPieces(metadata ?? []);
  }
}

function* metadataPieces(metadata: readonly (readonly string[])[]): Generator<Uint8Array> {
  let piece: Uint8Array[] = [];
  let bytes = 0;
  for (const texts of metadata) {
    const json = Buffer.from(JSON.stringify(texts));
    piece.push(u32(json.length), json);
    bytes += 4 + json.length;
    if (bytes < 4 * pieceValues) continue;
    yield Buffer.concat(piece);
    piece = [];
    bytes = 0;
  }
  if (bytes > 0) yield Buffer.concat(piece);
}

/** The hash of the canonical bytes: the id of the data. */
export function sampleSetHash(set: SampleSet): Hash {
  const hash = createHash("sha256");
  for (const piece of canonicalSamples(set)) hash.update(piece);
  return hash.digest("hex") as Hash;
}

function headerOf(set: SampleSet): Uint8Array {
  const { task, inputShape, targetSize, classes, outputs, metadata, train } = set;
  const forms = outputs?.map(({ name, kind, shape, classes: count }) => ({
    name,
    kind,
    shape,
    classes: count,
  }));
  if (train.weights !== undefined || metadata !== undefined)
    return withHeader(magics.extended, {
      task,
      inputShape,
      targetSize,
      classes,
      outputs: forms,
      weights: train.weights !== undefined,
      metadata,
    });
  if (task !== "general")
    return Buffer.concat([
      Buffer.from(magics.single),
      Uint8Array.of(task === "classification" ? 1 : 0, inputShape.length),
      ...[...inputShape, targetSize, classes].map(u32),
    ]);
  return withHeader(magics.general, { inputShape, outputs: forms });
}

function withHeader(magic: string, members: object): Uint8Array {
  const header = Buffer.from(JSON.stringify(members));
  return Buffer.concat([Buffer.from(magic), u32(header.length), header]);
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
  const form = formOf(magic, reader);
  const length = sampleLength(form);
  const [train, validation, heldOut] = partNames.map((): SamplePart => {
    const count = reader.u32();
    return {
      count,
      inputs: reader.floats(count * length),
      targets: reader.floats(count * form.targetSize),
      ...(form.isWeighted && count > 0 && { weights: reader.floats(count) }),
      ...(form.metadata && count > 0 && { metadata: Array.from({ length: count }, () => reader.texts()) }),
    };
  }) as [SamplePart, SamplePart, SamplePart];
  reader.end();
  const { isWeighted: _, ...shared } = form;
  return checkedSet({
    ...shared,
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

interface SetForm extends Pick<
  SampleSet,
  "task" | "inputShape" | "targetSize" | "classes" | "outputs" | "metadata"
> {
  readonly isWeighted?: boolean;
}

function formOf(magic: string, reader: ByteReader): SetForm {
  switch (magic) {
    case magics.single:
      return singleForm(reader);
    case magics.general:
      return generalForm(reader);
    case magics.extended:
      return extendedForm(reader);
    default:
      return reader.refuse("it does not begin as canonical samples do");
  }
}

function headerIn(reader: ByteReader): unknown {
  const length = reader.u32();
  if (length > maxHeaderBytes) reader.refuse(`its header has ${length} bytes`);
  return reader.json(length);
}

const shape = z.array(z.number().int().min(1)).max(8);
const extendedHeader = z.strictObject({
  task: z.enum(["regression", "classification", "general"]),
  inputShape: shape,
  targetSize: z.number().int().min(0),
  classes: z.number().int().min(0),
  outputs: z
    .array(
      z.strictObject({
        name: z.string(),
        kind: z.enum(targetKinds),
        shape,
        classes: z.number().int().min(0),
      }),
    )
    .optional(),
  weights: z.boolean(),
  metadata: z.array(z.string()).optional(),
});

function extendedForm(reader: ByteReader): SetForm {
  const header = extendedHeader.safeParse(headerIn(reader));
  if (!header.success) return reader.refuse("its header is not one of samples");
  const { weights: isWeighted, ...form } = header.data;
  return { ...form, isWeighted };
}

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
  const header = headerIn(reader) as {
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

  json(length: number): unknown {
    const text = this.text(length);
    try {
      return JSON.parse(text);
    } catch {
      return this.refuse("it has a text that is not JSON");
    }
  }

  /** A list of texts, with its length before it. */
  texts(): readonly string[] {
    const texts = this.json(this.u32());
    return Array.isArray(texts) && texts.every((text) => typeof text === "string")
      ? texts
      : this.refuse("what is kept with a sample is not a list of texts");
  }

  end(): void {
    if (this.#at !== this.source.length)
      this.refuse(`${this.source.length - this.#at} bytes follow its last sample`);
  }
}
